// Points of a plan's chart lead to their rows: by a press on the chart, or by the links of its table. A row that is folded away
// is opened first.
(function () {
  "use strict";

  function reveal(name) {
    const row = name ? document.getElementById(name) : null;
    if (!row || !row.matches("tr[id^='way-']")) return;
    const fold = row.closest("details");
    if (fold) fold.open = true;
    row.scrollIntoView({ block: "center" });
    row.focus({ preventScroll: true });
  }

  document.addEventListener("DOMContentLoaded", function () {
    const figure = document.getElementById("frontier");
    const entry = figure && window.taktCharts ? window.taktCharts.entryOf(figure) : null;
    if (entry) {
      entry.chart.on("click", function (item) {
        if (!item.data || !item.data.row) return;
        history.replaceState(null, "", "#" + item.data.row);
        reveal(item.data.row);
      });
    }
    reveal(window.location.hash.slice(1));
  });
  window.addEventListener("hashchange", function () { reveal(window.location.hash.slice(1)); });
})();
