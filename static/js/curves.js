// Costs by volume on two logarithmic axes: a line for each place, a pin where it crosses the reference.
(function () {
  "use strict";
  const charts = window.taktCharts;
  const powers = (values) => {
    const known = values.filter((value) => value > 0);
    return { min: Math.pow(10, Math.floor(Math.log10(Math.min(...known)))), max: Math.pow(10, Math.ceil(Math.log10(Math.max(...known)))) };
  };
  charts.kinds.curves = function (data, c) {
    const option = charts.base(c);
    const points = data.series.flatMap((one) => one.points);
    const axis = (unit, values, more) => charts.valueAxis(c, unit, Object.assign({ type: "log" }, powers(values), more));
    option.grid.top = 48;
    option.grid.bottom = 30;
    option.grid.right = 24;
    option.xAxis = axis("", points.map((point) => point[0]), { name: data.x, nameLocation: "middle", nameGap: 28 });
    option.yAxis = axis(data.unit, points.map((point) => point[1]), {});
    option.legend.show = true;
    option.tooltip.trigger = "item";
    option.tooltip.formatter = (item) => item.data.name || item.seriesName;
    option.series = data.series.map((one, place) => ({
      name: one.name, type: "line", data: one.points, showSymbol: false, symbolSize: 6, triggerLineEvent: true,
      color: c.series[place % c.series.length], emphasis: { focus: "series" },
      lineStyle: { width: one.strong ? 3 : 1.75, type: one.dashed ? "dashed" : place < c.series.length ? "solid" : "dotted" },
      markLine: place ? undefined : {
        silent: true, symbol: "none", lineStyle: { color: c.ink2, type: "dotted" }, data: [{ xAxis: data.plan }],
        label: { formatter: "this plan", color: c.ink2, position: "insideStartTop" },
      },
    }));
    option.series.push({
      name: "break-even", type: "scatter", symbol: "diamond", symbolSize: 13, z: 5,
      itemStyle: { color: c.accent, borderColor: c.surface, borderWidth: 1.5 },
      data: data.marks.map((mark) => ({ name: mark.name, value: [mark.x, mark.y] })),
    });
    return option;
  };
})();
