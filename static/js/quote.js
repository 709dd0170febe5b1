// The slider beside the volume box: positions are round numbers. Prices are computed by the server alone.
// A price that is not of what the boxes hold cannot be bought. A button that is pressed meanwhile waits for the next price
// and makes the quote then, or says why not: no press is lost.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  for (const slider of document.querySelectorAll("[data-volume-slider]")) {
    const box = document.getElementById(slider.dataset.volumeSlider);
    const steps = slider.dataset.steps.split(",").map(Number);
    slider.addEventListener("input", () => {
      box.value = steps[Number(slider.value)];
      slider.setAttribute("aria-valuetext", box.value);
      box.dispatchEvent(new Event("input", { bubbles: true }));
    });
    box.addEventListener("input", () => {
      const value = Number(box.value.replace(/[,_ ]/g, ""));
      let position = 0;
      steps.forEach((step, index) => { if (step <= value) position = index; });
      slider.value = String(position);
    });
  }

  const form = document.getElementById("quote-form");
  if (!form) return;
  const offer = () => document.getElementById("offer");
  if (location.pathname + location.search !== form.dataset.address) history.replaceState(history.state, "", form.dataset.address);

  // What the boxes hold is numbered: each change by a person is one more. Answers change boxes too (a time that was picked,
  // the earlier price), which is no change of what is asked for.
  const typed = () => {
    const held = new FormData(form);
    held.delete("previous");
    return new URLSearchParams(held).toString();
  };
  let seen = typed(), now = 0;
  let priced = 0;  // of which the offer is; nothing after a failure
  let asked = null;  // for which a price is on its way
  let settling = null;  // whose price is being put into the page
  let wanted = null;  // the button that waits for it, by its id
  let pressed = null;  // the button on which a press has begun

  const look = () => {
    if (typed() !== seen) {
      seen = typed();
      now += 1;
    }
    if (priced !== now) offer().setAttribute("aria-busy", "true");
  };
  const isOnItsWay = () => asked === now || settling === now;
  const want = (button) => {
    wanted = button.id;
    button.classList.add("btn-loading");
    window.takt.say("The quote is made as soon as the price is there.");
    if (!isOnItsWay()) htmx.trigger(form, "change");
  };
  const forget = () => {
    const button = wanted && document.getElementById(wanted);
    if (button) button.classList.remove("btn-loading");
    wanted = null;
  };
  const tell = (id) => {  // a refusal, in sight
    if (id) offer().prepend(document.getElementById(id).content.cloneNode(true));
    const said = offer().querySelector("[role=alert]");
    if (!said) return;
    said.tabIndex = -1;
    said.focus();
  };
  const press = (id) => {
    const button = document.getElementById(id);
    if (button) button.form.requestSubmit(button);
    else tell(document.getElementById("make-quote") ? "offer-gone" : undefined);
  };

  for (const name of ["input", "change"]) form.addEventListener(name, look);
  form.addEventListener("input", forget);  // whoever types on has changed their mind
  form.addEventListener("htmx:confirm", (event) => {
    look();
    if (event.detail.triggeringEvent?.submitter) now += 1;  // an hour was picked
    else if (isOnItsWay() || (priced === now && asked === null)) event.preventDefault();
  });
  form.addEventListener("htmx:beforeRequest", () => { asked = now; });
  form.addEventListener("htmx:afterRequest", () => { asked = null; });
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.requestConfig?.elt !== form || !event.detail.shouldSwap) return;
    look();
    if (asked === now) settling = now;
    else event.preventDefault();  // it is of what the boxes held before
  });
  document.body.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.requestConfig?.elt !== form || settling === null) return;
    if (settling === now) seen = typed();
    priced = settling;
    settling = null;
    look();
    const id = priced === now && wanted;
    if (!id) return;
    wanted = null;
    press(id);
  });
  for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout", "htmx:swapError"]) {
    form.addEventListener(name, () => {
      const waited = wanted;
      priced = settling = wanted = null;
      offer().replaceWith(document.getElementById("offer-failed").content.cloneNode(true));
      document.getElementById("price-strip").hidden = true;  // the next price shows it again
      if (waited) tell();
    });
  }

  // The next price may come between the two halves of a press and put a new button in place of the pressed one: the browser
  // then knows of no click.
  const begin = (event) => {
    const button = event.target.closest("#offer button[type=submit]");
    pressed = button && { button: button, x: event.clientX, y: event.clientY };
  };
  const end = (event) => {
    const was = pressed;
    pressed = null;
    if (!was || was.button.isConnected || Math.hypot(event.clientX - was.x, event.clientY - was.y) > 8) return;
    press(was.button.id);
  };
  document.addEventListener("pointerdown", (event) => { if (event.button === 0) begin(event); });
  document.addEventListener("pointerup", end);
  document.addEventListener("keydown", (event) => { if (event.key === " " && !event.repeat) begin(event); });
  document.addEventListener("keyup", (event) => { if (event.key === " ") end(event); });

  document.addEventListener("submit", (event) => {
    if (!offer().contains(event.target)) return;
    if (priced !== now) {
      event.preventDefault();
      want(event.submitter || event.target.querySelector("button"));
      return;
    }
    const box = document.getElementById("id_volume");
    if (!box) return;
    const held = document.createElement("input");
    Object.assign(held, { type: "hidden", name: "box", value: box.value });
    event.target.append(held);
  }, true);  // before the listener that lets no form be sent twice
});
