// The search box that opens over every page, and keyboard shortcuts. The server finds; this only moves among what it found.
// A combobox whose list box is chosen from with the arrow keys (WAI-ARIA), and shortcuts of single keys that can be turned
// off (WCAG 2.1.4): the choice stays in this browser.
(function () {
  "use strict";
  const SWITCH = "takt_keys";
  const WAIT = 1200; // milliseconds from `g` to the key of a page

  function part(id) { return document.getElementById(id); }
  function stored() { try { return window.localStorage.getItem(SWITCH); } catch { return null; } }
  function singleKeys() { return stored() !== "off"; }
  function options() { return Array.from(document.querySelectorAll("#palette-options [role='option']")); }
  function chosen() { return document.querySelector("#palette-options [aria-selected='true']"); }

  function choose(option) {
    options().forEach(function (one) { one.setAttribute("aria-selected", String(one === option)); });
    const input = part("palette-input");
    if (option) {
      input.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({ block: "nearest" });
    } else {
      input.removeAttribute("aria-activedescendant");
    }
  }

  function move(step) {
    const all = options();
    if (!all.length) return;
    const place = all.indexOf(chosen());
    choose(all[(place + step + all.length) % all.length]);
  }

  // After the server's answer: the first hit is chosen, and the number of hits is announced.
  function answered() {
    const all = options();
    const count = all.length ? all.length - 1 : 0; // the last leads to the page of results
    part("palette-options").hidden = !all.length;
    part("palette-input").setAttribute("aria-expanded", String(all.length > 0));
    choose(all[0] || null);
    part("palette-status").textContent = all.length ? (count === 1 ? "1 result" : count + " results") : "";
  }

  function open(dialog) {
    const other = document.querySelector("dialog[open]");
    if (other && other !== dialog) other.close();
    if (!dialog.open) dialog.showModal();
  }

  function openPalette() {
    const dialog = part("palette");
    if (!dialog) return;
    open(dialog);
    part("palette-input").select();
  }

  function go(option, event) {
    if (event.ctrlKey || event.metaKey) window.open(option.dataset.href, "_blank", "noopener");
    else window.location.assign(option.dataset.href);
  }

  function paletteKey(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Escape") { // else a search field would only be emptied
      event.preventDefault();
      part("palette").close();
    } else if (event.key === "Enter" && chosen()) {
      event.preventDefault();
      go(chosen(), event);
    }
  }

  function isTyping(target) {
    return target.closest("input:not([type='checkbox']):not([type='radio']):not([type='range']), textarea, select, [contenteditable]");
  }

  let waiting = 0;
  function singleKey(event) {
    if (waiting) {
      window.clearTimeout(waiting);
      waiting = 0;
      const link = document.querySelector("#keys [data-key='" + CSS.escape(event.key) + "']");
      if (link) { event.preventDefault(); window.location.assign(link.href); }
      return;
    }
    if (event.key === "/") { event.preventDefault(); openPalette(); }
    else if (event.key === "?") { event.preventDefault(); open(part("keys")); }
    else if (event.key === "g") waiting = window.setTimeout(function () { waiting = 0; }, WAIT);
  }

  document.addEventListener("keydown", function (event) {
    if (event.isComposing || event.defaultPrevented) return;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      openPalette();
      return;
    }
    if (event.target.id === "palette-input") { paletteKey(event); return; }
    const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (isPlain && singleKeys() && !isTyping(event.target) && !document.querySelector("dialog[open]")) singleKey(event);
  });
  document.addEventListener("click", function (event) {
    const option = event.target.closest("#palette-options [role='option']");
    if (option) { go(option, event); return; }
    if (event.target.closest("[data-open-palette]")) openPalette();
    if (event.target.closest("[data-open-keys]")) open(part("keys"));
    const closing = event.target.closest("[data-close-dialog]");
    if (closing) closing.closest("dialog").close();
    if (event.target.matches("dialog#palette, dialog#keys")) event.target.close(); // beside the dialog's content
  });
  document.addEventListener("change", function (event) {
    if (!event.target.matches("[data-keys-switch]")) return;
    try { window.localStorage.setItem(SWITCH, event.target.checked ? "on" : "off"); } catch { /* kept for this page alone */ }
  });
  document.addEventListener("htmx:afterSwap", function (event) { if (event.detail.target.id === "palette-options") answered(); });
  document.addEventListener("DOMContentLoaded", function () {
    const box = document.querySelector("[data-keys-switch]");
    if (box) box.checked = singleKeys();
  });
})();
