// What every page may use: theme switch, copy buttons, sortable and filtered tables, local time of the browser, live region.
// Everything here is an addition: each page says the same without it.
(function () {
  "use strict";

  const say = function (text) {
    const live = document.getElementById("live");
    if (live) live.textContent = text;
  };
  // Emptied first, so that the same words are announced again.
  const announce = function (text) {
    say("");
    window.setTimeout(function () { say(text); }, 50);
  };

  function themeSwitch(part) {
    const show = function () {
      part.querySelectorAll("button").forEach(function (button) {
        button.setAttribute("aria-pressed", String(button.dataset.theme === window.taktTheme.chosen()));
      });
    };
    part.hidden = false;
    part.addEventListener("click", function (event) {
      const button = event.target.closest("button");
      if (!button) return;
      window.taktTheme.choose(button.dataset.theme);
      show();
    });
    show();
  }

  // Pages that are not served over TLS have no clipboard of their own: there the old command copies a selection.
  function copySelected(text) {
    const field = document.createElement("textarea");
    field.value = text;
    field.readOnly = true;
    field.className = "visually-hidden";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }

  async function copy(button) {
    let done = true;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      done = copySelected(button.dataset.copy);
      button.focus();
    }
    announce(done ? "Copied" : "Could not copy. Select the text and press Ctrl-C.");
    if (!done) return;
    button.classList.add("is-copied");
    window.setTimeout(function () { button.classList.remove("is-copied"); }, 1600);
  }

  function cellValue(row, index) {
    const cell = row.cells[index];
    if (!cell) return "";
    const raw = cell.dataset.value === undefined ? cell.textContent.trim() : cell.dataset.value;
    const number = Number(raw);
    return raw !== "" && !Number.isNaN(number) ? number : raw.toLowerCase();
  }

  function sortable(table) {
    const heads = Array.from(table.querySelectorAll("thead th[data-sort]"));
    heads.forEach(function (head) {
      const button = document.createElement("button");
      button.type = "button";
      while (head.firstChild) button.append(head.firstChild);
      head.append(button);
      button.addEventListener("click", function () { sortBy(table, head, heads); });
    });
  }

  function sortBy(table, head, heads) {
    const index = head.cellIndex;
    const first = head.dataset.sort === "number" ? "descending" : "ascending";
    const other = first === "descending" ? "ascending" : "descending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    heads.forEach(function (one) { one.removeAttribute("aria-sort"); });
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const body = table.tBodies[0];
    const rows = Array.from(body.rows).map(function (row, place) { return { row: row, place: place, key: cellValue(row, index) }; });
    rows.sort(function (a, b) {
      if (a.key === b.key) return a.place - b.place;
      return (a.key < b.key ? -1 : 1) * sign;
    });
    rows.forEach(function (one) { body.append(one.row); });
    say("Sorted by " + head.textContent.trim() + ", " + order);
  }

  function filter(input) {
    const table = document.getElementById(input.dataset.filter);
    if (!table) return;
    const count = document.getElementById(input.dataset.filterCount || "");
    const apply = function () {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      Array.from(table.tBodies[0].rows).forEach(function (row) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every(function (word) { return text.includes(word); });
        if (!row.hidden) shown += 1;
      });
      if (count) count.textContent = shown + " of " + table.tBodies[0].rows.length;
    };
    input.addEventListener("input", apply);
    apply();
  }

  // On a phone a row of records is read as a block: each cell learns its column's name, and the style sheet does the rest.
  const LONG = 34;
  function stacks(table) {
    const heads = table.tHead && table.tHead.rows.length === 1 ? Array.from(table.tHead.rows[0].cells) : [];
    if (heads.length < 3 || table.matches(".heat, .tariff, .table-tall > *, .chart-table *, .prose *")) return;
    const names = heads.map(function (head) { return head.dataset.name || (head.querySelector(".visually-hidden") ? "" : head.textContent.trim()); });
    table.classList.add("table-stacks");
    Array.from(table.rows).forEach(function (row) {
      if (row.parentElement === table.tHead) return;
      const filled = Array.from(row.cells).filter(function (cell) { return cell.textContent.trim(); });
      const isPair = row.parentElement === table.tFoot && filled.length === 2; // a sum beside its name needs no more words
      row.classList.toggle("row-pair", isPair);
      let column = 0;
      let titled = false;
      Array.from(row.cells).forEach(function (cell) {
        const name = names[column];
        const words = cell.textContent.trim();
        column += cell.colSpan;
        if (!words && !cell.children.length) cell.classList.add("cell-empty");
        else if (!titled && cell.matches(".tight")) { if (!cell.querySelector("input")) cell.classList.add("cell-empty"); }
        else if (cell.colSpan > 2 && row.parentElement === table.tBodies[0]) { cell.classList.add("cell-text"); titled = true; }
        else if (!titled) { cell.classList.add("cell-title"); titled = true; }
        else {
          if (name && !isPair && !cell.dataset.label) cell.dataset.label = name;
          if (words.length > LONG && !cell.matches(".num")) cell.classList.add("cell-text");
        }
      });
    });
  }

  function start(root) {
    root.querySelectorAll("[data-theme-switch]").forEach(function (part) { if (part.hidden) themeSwitch(part); });
    root.querySelectorAll("table[data-sortable]:not([data-ready])").forEach(function (table) {
      table.dataset.ready = "";
      sortable(table);
    });
    root.querySelectorAll(".card .table-scroll > .table:not([data-stacks])").forEach(function (table) {
      table.dataset.stacks = "";
      stacks(table);
    });
    root.querySelectorAll("input[data-filter]:not([data-ready])").forEach(function (input) {
      input.dataset.ready = "";
      filter(input);
    });
    root.querySelectorAll("[data-needs-script][hidden]").forEach(function (part) { part.hidden = false; });
  }

  document.addEventListener("click", function (event) {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
    const confirming = event.target.closest("[data-confirm]");
    if (confirming && !window.confirm(confirming.dataset.confirm)) event.preventDefault();
  });
  // A second click while the first is on its way would send the same form again.
  document.addEventListener("submit", function (event) {
    const form = event.target;
    if (event.defaultPrevented || form.method !== "post" || form.hasAttribute("hx-post")) return;
    if ("sent" in form.dataset) { event.preventDefault(); return; }
    form.dataset.sent = "";
  });
  window.addEventListener("pageshow", function () {
    document.querySelectorAll("form[data-sent]").forEach(function (form) { delete form.dataset.sent; });
  });
  document.addEventListener("change", function (event) {
    const select = event.target.closest("[data-submit-on-change]");
    if (select && select.form) select.form.requestSubmit();
  });
  // The time that is left until an instant, counted down; the server says the same each time it is asked.
  window.setInterval(function () {
    document.querySelectorAll("[data-countdown]").forEach(function (part) {
      const left = Math.max(0, Math.floor((Date.parse(part.dataset.countdown) - Date.now()) / 1000));
      part.textContent = Math.floor(left / 60) + " min " + String(left % 60).padStart(2, "0") + " s";
    });
  }, 1000);
  // How long ago a figure was read; the server's own age when it was written, plus the time since.
  const AGES = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  window.setInterval(function () {
    document.querySelectorAll("[data-age]").forEach(function (part) {
      if (!part.dataset.ageFrom) part.dataset.ageFrom = String(performance.now() - 1000 * Number(part.dataset.age));
      const age = Math.floor((performance.now() - Number(part.dataset.ageFrom)) / 1000);
      const unit = AGES.find(function (one) { return age >= one[0]; }) || AGES[3];
      part.textContent = part.dataset.ageVerb + " " + Math.floor(age / unit[0]) + " " + unit[1] + " ago";
    });
  }, 1000);
  document.addEventListener("DOMContentLoaded", function () { start(document); });
  document.addEventListener("htmx:load", function (event) { start(event.detail.elt); });
  // A part that is fetched again keeps what the person has opened or closed in it.
  const folds = new Map();
  document.addEventListener("htmx:beforeSwap", function () {
    document.querySelectorAll("details[data-keep-open]").forEach(function (part) { folds.set(part.id, part.open); });
  });
  document.addEventListener("htmx:afterSwap", function () {
    document.querySelectorAll("details[data-keep-open]").forEach(function (part) { if (folds.has(part.id)) part.open = folds.get(part.id); });
  });
  // A part that cannot be fetched because of a fault of ours: the page says so, with the id that finds it in the log.
  document.addEventListener("htmx:responseError", function (event) {
    const answer = event.detail.xhr;
    if (answer.status < 500) return;
    let note = document.getElementById("fault");
    if (!note) {
      note = document.createElement("div");
      note.id = "fault";
      note.className = "note note-danger";
      note.setAttribute("role", "alert");
      document.getElementById("main").prepend(note);
    }
    note.textContent = "This page could not be updated. Load it again. If the fault remains, report the request ID " +
      (answer.getResponseHeader("X-Request-ID") || "of your next try") + ".";
  });
  document.addEventListener("htmx:sendError", function () { say("The server cannot be reached; trying again."); });
  window.takt = { say: say, start: start };
})();
