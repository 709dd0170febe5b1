// The slider beside the volume box: positions are round numbers. Prices are computed by the server alone.
// A price that is not of what the boxes hold cannot be bought: its buttons are off until the next price is there.
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
  const typed = () => new URLSearchParams(new FormData(form)).toString();
  let priced = typed(), asked = priced;
  const isPriced = () => typed() === priced && asked === priced;
  const stale = () => {
    if (isPriced()) return;  // leaving a box fires a change too, in the middle of the press of a button
    offer().setAttribute("aria-busy", "true");
    for (const button of offer().querySelectorAll("form button")) button.disabled = true;
  };
  form.addEventListener("input", stale);
  form.addEventListener("change", stale);
  form.addEventListener("htmx:beforeRequest", (event) => {
    if (isPriced()) event.preventDefault();
    else asked = typed();
  });
  document.body.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.requestConfig?.elt === form && event.detail.xhr.status < 400) priced = asked;
  });
  for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout", "htmx:swapError"]) {
    form.addEventListener(name, () => {
      priced = null;
      offer().replaceWith(document.getElementById("offer-failed").content.cloneNode(true));
    });
  }
  document.addEventListener("submit", (event) => {
    const box = document.getElementById("id_volume");
    if (!box || !offer().contains(event.target)) return;
    const held = document.createElement("input");
    Object.assign(held, { type: "hidden", name: "box", value: box.value });
    event.target.append(held);
  });
});
