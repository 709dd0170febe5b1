// Charts in the page's own colours. A figure[data-chart] holds a canvas and, beneath it, the same figures as a table.
// Numbers are drawn, never computed here: what is written as text comes from the server.
(function () {
  "use strict";

  const kinds = {};
  const mounted = new Map();

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const read = function (name) { return style.getPropertyValue("--" + name).trim(); };
    return {
      ink: read("ink"), ink2: read("ink-2"), line: read("line"), lineStrong: read("line-strong"), surface: read("surface"),
      surface2: read("surface-2"), accent: read("accent-ink"), ok: read("ok"), bad: read("bad"), note: read("note"),
      series: [1, 2, 3, 4, 5, 6, 7, 8].map(function (number) { return read("chart-" + number); }),
    };
  }

  const thousands = new Intl.NumberFormat("en-US");
  function count(value) { return thousands.format(value); }
  function short(value) {
    const prefixes = ["", "k", "M", "G", "T", "P"];
    let step = 0;
    while (Math.abs(value) >= 1000 && step < prefixes.length - 1) { value /= 1000; step += 1; }
    return (step ? Number(value.toPrecision(3)) : value) + (prefixes[step] ? "\u202f" + prefixes[step] : "");
  }
  function bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let step = 0;
    while (Math.abs(value) >= 1024 && step < units.length - 1) { value /= 1024; step += 1; }
    // Rounded as the server rounds: a page that says 522 KiB has no chart that says 523.
    const places = step ? Math.max(0, 3 - String(Math.trunc(Math.abs(value))).length) : 0;
    return new Intl.NumberFormat("en-US", { maximumFractionDigits: places, roundingMode: "halfEven" }).format(value) + "\u202f" + units[step];
  }
  const significant = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });
  const seconds = { s: 1, ms: 1e-3, "\u00b5s": 1e-6, ns: 1e-9 };
  const symbols = { EUR: "\u20ac", USD: "$", GBP: "\u00a3" };
  function time(value) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 7200) return significant.format(value / 3600) + "\u202fh";
    const name = Object.keys(seconds).find(function (one) { return size >= seconds[one]; }) || "ns";
    return significant.format(value / seconds[name]) + "\u202f" + name;
  }
  function inUnit(value, unit) {
    if (value === null || value === undefined) return "not known";
    if (unit === "bytes") return bytes(value);
    if (unit in seconds) return time(value * seconds[unit]);
    if (/^[A-Z]{3}$/.test(unit || "")) return (symbols[unit] || unit) + "\u202f" + significant.format(value);
    return short(value) + (unit ? "\u202f" + unit : "");
  }

  function base(c) {
    return {
      animation: false,
      color: c.series,
      textStyle: { fontFamily: "Inter, system-ui, sans-serif", color: c.ink2, fontSize: 12 },
      grid: { left: 8, right: 16, top: 28, bottom: 8, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
      tooltip: {
        renderMode: "richText", confine: true, backgroundColor: c.surface, borderColor: c.lineStrong, borderWidth: 1, padding: [8, 10],
        textStyle: { color: c.ink, fontSize: 12, lineHeight: 18 }, extraCssText: "",
      },
      legend: { show: false, type: "scroll", pageIconColor: c.ink2, pageIconInactiveColor: c.line, pageTextStyle: { color: c.ink2 }, top: 0, left: 0, itemWidth: 10, itemHeight: 10, icon: "roundRect", textStyle: { color: c.ink2 }, inactiveColor: c.line },
    };
  }

  // between four and eight ticks at powers of two, so that labels read 1 MiB and not 977 KiB
  function binaryStep(most) {
    return Math.pow(2, Math.max(0, Math.ceil(Math.log2(Math.max(most, 1) / 8))));
  }

  function valueAxis(c, unit, more) {
    if (unit === "bytes" && more && more.most) {
      const step = binaryStep(more.most);
      more = Object.assign({ interval: step, max: Math.ceil(more.most / step) * step }, more, { most: undefined });
    }
    return Object.assign({
      type: "value", axisLine: { show: false }, axisTick: { show: false }, splitLine: { lineStyle: { color: c.line } },
      axisLabel: { color: c.ink2, hideOverlap: true, formatter: function (value) { return inUnit(value, unit); } },
      nameTextStyle: { color: c.ink2 },
    }, more || {});
  }
  function categoryAxis(c, values, more) {
    return Object.assign({
      type: "category", data: values, axisLine: { lineStyle: { color: c.lineStrong } }, axisTick: { show: false },
      axisLabel: { color: c.ink2, hideOverlap: true }, nameTextStyle: { color: c.ink2 },
    }, more || {});
  }

  function largest(data) {
    if (!data.stacked) return Math.max.apply(null, data.series.flatMap(function (one) { return one.values; }).concat(0));
    return Math.max.apply(null, data.categories.map(function (_, place) { return data.series.reduce(function (sum, one) { return sum + (one.values[place] || 0); }, 0); }).concat(0));
  }

  function isNarrow() { return window.innerWidth < 576; }

  kinds.bar = function (data, c) {
    const option = base(c);
    const values = valueAxis(c, data.unit, { minInterval: data.whole ? 1 : 0, min: 0, most: largest(data) });
    const names = categoryAxis(c, data.categories, data.horizontal ? { inverse: true, axisLabel: { color: c.ink2, width: 150, overflow: "truncate" } } : {});
    option.xAxis = data.horizontal ? values : names;
    option.yAxis = data.horizontal ? names : values;
    if (data.horizontal) {
      option.grid.right = 44; // half of the last label lies beyond the axis
      if (isNarrow()) values.splitNumber = 2;
    }
    option.tooltip.trigger = "axis";
    option.tooltip.axisPointer = { type: "shadow", shadowStyle: { color: c.surface2, opacity: 0.6 } };
    option.tooltip.valueFormatter = function (value) { return inUnit(value, data.unit); };
    option.legend.show = data.series.length > 1;
    option.series = data.series.map(function (one) {
      return { name: one.name, type: "bar", data: one.values, stack: data.stacked ? "all" : undefined, barMaxWidth: 28, itemStyle: { borderRadius: data.stacked ? 0 : 2 } };
    });
    return option;
  };

  kinds.line = function (data, c) {
    const option = base(c), oneDay = 24 * 3600 * 1000;
    // A day is named once, at its midnight; what lies within one day is told in hours.
    const last = data.until || data.times[data.times.length - 1];
    const byDay = data.days && Date.parse(last) - Date.parse(data.times[0]) >= oneDay;
    const dayName = function (value) { return value % oneDay ? "" : new Date(value).toISOString().slice(0, 10); };
    option.xAxis = {
      type: "time", max: data.until, axisLine: { lineStyle: { color: c.lineStrong } }, axisTick: { show: false }, axisLabel: { color: c.ink2, hideOverlap: true, formatter: byDay ? dayName : { day: "{HH}:{mm}", hour: "{HH}:{mm}" } },
    };
    if (byDay) option.xAxis.minInterval = oneDay;
    option.useUTC = true;
    option.yAxis = valueAxis(c, data.unit, { minInterval: data.whole ? 1 : 0, min: 0 });
    option.tooltip.trigger = "axis";
    option.tooltip.axisPointer = { type: "line", lineStyle: { color: c.lineStrong } };
    option.tooltip.valueFormatter = function (value) { return inUnit(value, data.unit); };
    option.legend.show = data.series.length > 1;
    option.series = data.series.map(function (one) {
      const points = data.times.map(function (time, place) { return [time, one.values[place]]; });
      return {
        name: one.name, type: "line", data: points, step: one.step ? "end" : false, showSymbol: points.length < (one.step ? 3 : 40), symbolSize: 5,
        lineStyle: { width: 1.75 }, areaStyle: one.area || one.step ? { opacity: 0.12 } : undefined, connectNulls: false,
      };
    });
    return option;
  };

  // a logarithmic axis where the largest is far from the smallest, as latencies of a processor and of a computer are
  function spread(points, axis) {
    const values = points.map(function (point) { return Number(point[axis]); }).filter(function (value) { return value > 0; });
    const least = Math.min.apply(null, values);
    const most = Math.max.apply(null, values);
    if (values.length < points.length || most < 50 * least) return { min: 0 };
    return { type: "log", min: Math.pow(10, Math.floor(Math.log10(least))), max: Math.pow(10, Math.ceil(Math.log10(most))) };
  }

  /** Where a point's name stands: above it, but beside it near the axis, whose numbers it would cover. */
  function nameSide(points) {
    const range = spread(points, "x");
    const scale = range.type ? Math.log10 : Number;
    const first = scale(range.min);
    const last = scale(range.max || Math.max.apply(null, points.map(function (point) { return Number(point.x) || 0; })));
    return function (x) { return (scale(Number(x)) - first) / (last - first) < 0.2 ? "right" : "top"; };
  }

  kinds.scatter = function (data, c) {
    const option = base(c);
    const side = nameSide(data.points);
    const shapes = { chosen: "diamond", feasible: "circle", infeasible: "triangle" };
    const tints = { chosen: c.accent, feasible: c.series[2], infeasible: c.ink2 };
    option.grid.top = 48;
    option.grid.bottom = 30;
    option.grid.right = 40;
    option.xAxis = valueAxis(c, data.x.unit, Object.assign({ name: data.x.name, nameLocation: "middle", nameGap: 28 }, spread(data.points, "x")));
    option.yAxis = valueAxis(c, data.y.unit, Object.assign({ name: data.y.name, nameTextStyle: { color: c.ink2, align: "left" } }, spread(data.points, "y")));
    option.legend.show = true;
    option.tooltip.trigger = "item";
    option.tooltip.formatter = function (item) { return item.data.name + (item.data.note ? "\n" + item.data.note : ""); };
    option.series = Object.keys(shapes).map(function (state) {
      const points = data.points.filter(function (point) { return point.state === state; });
      return {
        name: state === "chosen" ? "recommended" : state, type: "scatter", symbol: shapes[state], symbolSize: state === "chosen" ? 18 : 12,
        itemStyle: { color: tints[state], opacity: state === "infeasible" ? 0.6 : 1 },
        label: { show: true, formatter: function (item) { return item.data.labelled && (state === "chosen" || !isNarrow()) ? item.data.name : ""; }, color: c.ink, fontSize: 11 }, labelLayout: { hideOverlap: true },
        data: points.map(function (point) { return { name: point.name, note: point.note, labelled: point.labelled, row: point.row, label: { position: side(point.x) }, value: [Number(point.x), Number(point.y)] }; }),
      };
    });
    option.series = option.series.filter(function (one) { return one.data.length; });
    return option;
  };

  /** On a narrow chart a legend of a few names wraps, and the drawing begins below it; one of many names is turned by pages. */
  function legendWraps(option, width) {
    if (!option.legend || !option.legend.show || !isNarrow() || option.series.length > 8) return option;
    let rows = 1;
    let filled = 0;
    option.series.forEach(function (one) {
      const needed = String(one.name).length * 7 + 26; // a mark and its name in 12 pixels
      if (filled && filled + needed > width) { rows += 1; filled = 0; }
      filled += needed;
    });
    option.legend.type = "plain";
    [].concat(option.grid).forEach(function (grid) { if (typeof grid.top === "number") grid.top += (rows - 1) * 22; });
    return option;
  }

  function show(figure, data) {
    const kind = kinds[figure.dataset.chart];
    const canvas = figure.querySelector(".chart-canvas");
    if (!kind || !canvas || !window.echarts) return;
    canvas.hidden = false;
    const chart = window.echarts.init(canvas, null, { renderer: "canvas" });
    const entry = { chart: chart, data: data, figure: figure, kind: kind };
    mounted.set(figure, entry);
    chart.setOption(legendWraps(kind(data, colours(), entry), canvas.clientWidth));
    if (kind.after) kind.after(entry);
    const fold = figure.querySelector(".chart-table");
    if (fold) fold.open = false;
    new ResizeObserver(function () { chart.resize(); }).observe(canvas);
  }

  async function mount(figure) {
    if (mounted.has(figure) || figure.dataset.ready !== undefined) return;
    figure.dataset.ready = "";
    try {
      if (figure.dataset.source) {
        const source = document.getElementById(figure.dataset.source);
        if (source) show(figure, JSON.parse(source.textContent));
      } else if (figure.dataset.url) {
        const answer = await fetch(figure.dataset.url, { headers: { Accept: "application/json" } });
        if (answer.ok) show(figure, await answer.json());
      }
    } catch (error) {
      console.warn("The chart could not be drawn; its table stands below.", error);
    }
  }

  function start(root) {
    root.querySelectorAll("figure[data-chart]").forEach(mount);
  }

  document.addEventListener("DOMContentLoaded", function () { start(document); });
  document.addEventListener("htmx:load", function (event) { start(event.detail.elt); });
  document.addEventListener("takt:theme", function () {
    mounted.forEach(function (entry, figure) {
      if (!figure.isConnected) { entry.chart.dispose(); mounted.delete(figure); return; }
      entry.chart.setOption(legendWraps(entry.kind(entry.data, colours(), entry), entry.chart.getWidth()), true);
      if (entry.kind.again) entry.kind.again(entry);
    });
  });
  window.taktCharts = {
    kinds: kinds, colours: colours, base: base, valueAxis: valueAxis, categoryAxis: categoryAxis, bytes: bytes, count: count, short: short,
    entryOf: function (figure) { return mounted.get(figure); },
  };
})();
