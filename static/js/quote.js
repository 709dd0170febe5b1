// The slider beside the volume box: positions are round numbers. Prices are computed by the server alone.
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
      const value = Number(box.value);
      let position = 0;
      steps.forEach((step, index) => { if (step <= value) position = index; });
      slider.value = String(position);
    });
  }
});
