// The drawings of a program's report: profile of the operations, schedule, memory map. See graph.js for the graph.
(function () {
  "use strict";
  const t = window.taktCharts;
  if (!t) return;

  function shared() {
    const source = document.getElementById("report-names");
    return source ? JSON.parse(source.textContent) : { rows: [], units: [] };
  }
  const names = shared();
  const titleOf = function (row) { return names.rows[row] ? names.rows[row].name : "operation " + row; };

  function goTo(row) {
    const line = document.getElementById("operation-" + row);
    if (!line) return;
    document.querySelectorAll("tr.is-chosen").forEach(function (one) { one.classList.remove("is-chosen"); });
    line.classList.add("is-chosen");
    line.scrollIntoView({ block: "center" });
    window.takt.say(titleOf(row) + " is marked in the table of operations.");
  }

  // profile: one bar per operation in the order of the schedule
  t.kinds.profile = function (data, c, entry) {
    const measure = entry.figure.dataset.measure || "cycles";
    const unit = { cycles: "cycles", operations: "op", bytes: "bytes" }[measure];
    const option = t.base(c);
    option.grid.top = 12;
    option.xAxis = t.categoryAxis(c, data.rows.map(function (row) { return row.name; }), { axisLabel: { show: data.rows.length < 14, interval: 0, color: c.ink2, width: entry.chart.getWidth() / (data.rows.length + 2), overflow: "truncate" } });
    option.yAxis = t.valueAxis(c, unit, { min: 0, most: Math.max.apply(null, data.rows.map(function (row) { return row[measure]; }).concat(1)) });
    option.tooltip.trigger = "axis";
    option.tooltip.axisPointer = { type: "shadow", shadowStyle: { color: c.surface2, opacity: 0.7 } };
    option.tooltip.formatter = function (items) {
      const row = data.rows[items[0].dataIndex];
      const value = unit === "bytes" ? t.bytes(row.bytes) : t.count(row[measure]) + " " + unit;
      return row.name + "\n" + row.kind + (row.limit ? ", limited by " + row.limit : "") + "\n" + value;
    };
    option.series = [{
      type: "bar", barCategoryGap: data.rows.length > 60 ? "5%" : "25%", barMaxWidth: 36, itemStyle: { color: c.series[0], borderRadius: [2, 2, 0, 0] },
      emphasis: { itemStyle: { color: c.series[1] } },
      data: data.rows.map(function (row) { return row[measure]; }),
    }];
    return option;
  };
  t.kinds.profile.after = function (entry) {
    entry.chart.getZr().on("click", function (event) {
      const place = entry.chart.convertFromPixel({ gridIndex: 0 }, [event.offsetX, event.offsetY]);
      if (place && entry.data.rows[place[0]]) goTo(entry.data.rows[place[0]].index);
    });
    const choice = document.getElementById("profile-measure");
    if (!choice) return;
    choice.addEventListener("change", function () {
      entry.figure.dataset.measure = choice.value;
      entry.chart.setOption(t.kinds.profile(entry.data, t.colours(), entry), true);
    });
  };

  // schedule: a lane per unit
  function tint(c, row) { return c.series[row % c.series.length]; }

  function laneBar(c, data) {
    return function (params, api) {
      const from = api.coord([api.value(1), api.value(0)]);
      const to = api.coord([api.value(2), api.value(0)]);
      const height = Math.max(4, api.size([0, 1])[1] * 0.72);
      const full = api.value(4) / 1000;
      const shape = window.echarts.graphic.clipRectByRect(
        { x: from[0], y: from[1] - height / 2, width: Math.max(1, to[0] - from[0]), height: height },
        { x: params.coordSys.x, y: params.coordSys.y, width: params.coordSys.width, height: params.coordSys.height });
      return shape && { type: "rect", shape: shape, style: { fill: tint(c, api.value(3)), opacity: 0.25 + 0.75 * full } };
    };
  }

  t.kinds.timeline = function (data, c) {
    const option = t.base(c);
    option.grid.top = 8;
    option.grid.bottom = 62;
    option.xAxis = t.valueAxis(c, "", { min: 0, max: data.latency, name: "cycle", nameLocation: "middle", nameGap: 26, axisLabel: { color: c.ink2, hideOverlap: true, showMaxLabel: false, formatter: function (value) { return t.count(Math.round(value)); } } });
    option.yAxis = t.categoryAxis(c, names.units, { inverse: true, splitLine: { show: true, lineStyle: { color: c.line } } });
    option.tooltip.trigger = "item";
    option.tooltip.formatter = function (item) {
      const bar = item.value;
      const full = bar[4] < 1000 ? "\n" + bar[4] / 10 + " % busy, " + bar[5] + " runs, mostly this operation" : "";
      return titleOf(bar[3]) + "\n" + names.units[bar[0]] + "\ncycles " + t.count(bar[1]) + " to " + t.count(bar[2]) + full;
    };
    option.dataZoom = [
      { type: "inside", xAxisIndex: 0, filterMode: "none", minValueSpan: 32, zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false },
      { type: "slider", xAxisIndex: 0, filterMode: "none", height: 20, bottom: 8, borderColor: c.line, fillerColor: c.accent + "22", handleStyle: { color: c.surface, borderColor: c.accent }, moveHandleStyle: { color: c.accent }, dataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } }, selectedDataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } }, textStyle: { color: c.ink2 }, labelFormatter: function (value) { return t.count(Math.round(value)); }, brushSelect: false },
    ];
    option.series = [{ type: "custom", renderItem: laneBar(c, data), encode: { x: [1, 2], y: 0 }, data: data.bars, clip: true, progressive: 0 }];
    return option;
  };
  t.kinds.timeline.after = function (entry) {
    const canvas = entry.figure.querySelector(".chart-canvas");
    canvas.style.height = names.units.length * 24 + 90 + "px";
    entry.chart.resize();
    let waiting = 0;
    let asked = "";
    const load = async function () {
      const zoom = entry.chart.getOption().dataZoom[0];
      const from = Math.max(0, Math.floor(zoom.startValue));
      const to = Math.ceil(zoom.endValue);
      const address = entry.figure.dataset.zoom + "?from=" + from + "&to=" + to;
      if (address === asked || (!entry.data.folded && entry.data.start === 0 && entry.data.end === entry.data.latency)) return;
      asked = address;
      const answer = await fetch(address, { headers: { Accept: "application/json" } });
      if (!answer.ok || address !== asked) return;
      const part = await answer.json();
      entry.chart.setOption({ series: [{ data: part.bars }] });
      window.takt.say("Cycles " + t.count(part.start) + " to " + t.count(part.end) + (part.folded ? ", summed up" : ", every run"));
    };
    entry.chart.on("datazoom", function () { window.clearTimeout(waiting); waiting = window.setTimeout(load, 180); });
    entry.chart.on("click", function (item) { if (item.value) goTo(item.value[3]); });
    document.querySelectorAll("[data-timeline]").forEach(function (button) {
      button.addEventListener("click", function () {
        const zoom = entry.chart.getOption().dataZoom[0];
        const middle = (zoom.startValue + zoom.endValue) / 2;
        const span = zoom.endValue - zoom.startValue;
        const wanted = { in: span / 3, out: span * 3, all: entry.data.latency }[button.dataset.timeline];
        const half = Math.max(16, wanted / 2);
        entry.chart.dispatchAction({ type: "dataZoom", startValue: Math.max(0, middle - half), endValue: Math.min(entry.data.latency, middle + half) });
      });
    });
  };

  // memory: address over cycle
  t.kinds.memory = function (data, c) {
    const option = t.base(c);
    option.grid.bottom = 30;
    option.grid.top = 30;
    option.legend.show = true;
    option.xAxis = t.valueAxis(c, "", { min: 0, max: data.latency, name: "cycle", nameLocation: "middle", nameGap: 26, splitLine: { show: false }, axisLine: { show: true, lineStyle: { color: c.lineStrong } }, axisLabel: { color: c.ink2, hideOverlap: true, showMaxLabel: false, formatter: function (value) { return t.count(Math.round(value)); } } });
    option.yAxis = t.valueAxis(c, "bytes", { min: 0, most: data.top - data.base });
    option.tooltip.trigger = "item";
    option.tooltip.formatter = function (item) {
      if (item.seriesType === "line") return "live bytes";
      const b = data.buffers[item.dataIndex];
      return b[0] + "\n" + t.bytes(b[2]) + " at address " + t.count(b[1]) + "\ncycles " + t.count(b[3]) + " to " + t.count(b[4]);
    };
    const draw = function (params, api) {
      const low = api.coord([api.value(0), api.value(2)]);
      const high = api.coord([api.value(1), api.value(3)]);
      return {
        type: "rect", shape: { x: low[0], y: high[1], width: Math.max(1, high[0] - low[0]), height: Math.max(1, low[1] - high[1]) },
        style: { fill: tint(c, params.dataIndex), opacity: 0.75, stroke: c.surface, lineWidth: 1 },
      };
    };
    const limit = function (colour, value, name, position) {
      return { yAxis: value, lineStyle: { color: colour, type: "dashed" }, label: { color: colour, formatter: name + t.bytes(value), position: position } };
    };
    const live = [[0, 0]].concat(data.live);
    option.series = [
      { name: "tensors", type: "custom", renderItem: draw, encode: { x: [0, 1], y: [2, 3] }, data: data.buffers.map(function (b) { return [b[3], b[4], b[1] - data.base, b[1] + b[2] - data.base]; }), clip: true, itemStyle: { color: c.series[0] } },
      { name: "sum of live tensors", type: "line", step: "end", data: live, showSymbol: false, lineStyle: { color: c.ink, width: 1.5 }, itemStyle: { color: c.ink }, silent: true,
        markLine: { silent: true, symbol: "none", data: [
          limit(c.bad, data.peak.bytes, "peak of live bytes ", "insideStartTop"),
          limit(c.ink2, data.highest, "highest address in use ", "insideEndTop"),
        ] } },
    ];
    return option;
  };
  window.taktReport = { goTo: goTo, titleOf: titleOf };
})();
