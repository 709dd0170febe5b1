// The dataflow graph: laid out by elkjs in a worker, drawn as SVG, nodes tinted by their share of the cycles.
(function () {
  "use strict";
  const SPACE = "http://www.w3.org/2000/svg";

  function make(name, attributes, parent) {
    const part = document.createElementNS(SPACE, name);
    Object.keys(attributes).forEach(function (key) { part.setAttribute(key, attributes[key]); });
    if (parent) parent.append(part);
    return part;
  }

  function clipped(text, length) { return text.length > length ? text.slice(0, length - 1) + "\u2026" : text; }

  // five steps of tint; the number stands in the node too, so colour is never alone
  function step(permille) { return permille >= 200 ? 4 : permille >= 100 ? 3 : permille >= 40 ? 2 : permille >= 10 ? 1 : 0; }

  function percent(node) {
    if (!node.cycles) return "0 %";
    return node.permille === 0 ? "< 0.1 %" : (node.permille / 10).toFixed(1) + " %";
  }

  function drawNode(place, node, parent) {
    const group = make("g", { class: "graph-node graph-heat-" + step(node.permille), transform: "translate(" + place.x + "," + place.y + ")", tabindex: "0", role: "link" }, parent);
    make("title", {}, group).textContent = node.label + ": " + node.note + ", " + percent(node) + " of the cycles";
    make("rect", { width: place.width, height: place.height, rx: 5 }, group);
    make("text", { x: 10, y: 18, class: "graph-label" }, group).textContent = clipped(node.label, 24);
    make("text", { x: 10, y: 34, class: "graph-note" }, group).textContent = clipped(node.note, 22);
    make("text", { x: place.width - 10, y: 34, class: "graph-share", "text-anchor": "end" }, group).textContent = percent(node);
    const open = function () { window.taktReport.goTo(node.rows[0]); };
    group.addEventListener("click", open);
    group.addEventListener("keydown", function (event) { if (event.key === "Enter") open(); });
  }

  function drawEdge(edge, parent) {
    edge.sections.forEach(function (section) {
      const points = [section.startPoint].concat(section.bendPoints || [], [section.endPoint]);
      const path = points.map(function (point, place) { return (place ? "L" : "M") + point.x + " " + point.y; }).join("");
      make("path", { d: path, class: "graph-edge", "marker-end": "url(#graph-arrow)" }, parent);
    });
  }

  async function draw(stage, data) {
    const elk = new window.ELK({ workerUrl: stage.dataset.worker });
    const layout = await elk.layout({
      id: "root",
      layoutOptions: {
        "elk.algorithm": "layered", "elk.direction": "DOWN", "elk.layered.spacing.nodeNodeBetweenLayers": "28", "elk.spacing.nodeNode": "22",
        "elk.edgeRouting": "ORTHOGONAL", "elk.layered.nodePlacement.strategy": "NETWORK_SIMPLEX", "elk.separateConnectedComponents": "false",
      },
      children: data.nodes.map(function (node) { return { id: String(node.id), width: 210, height: 44 }; }),
      edges: data.edges.map(function (edge, place) { return { id: "e" + place, sources: [String(edge[0])], targets: [String(edge[1])] }; }),
    });
    const svg = make("svg", { viewBox: "-8 -8 " + (layout.width + 16) + " " + (layout.height + 16), width: layout.width + 16, height: layout.height + 16, role: "group", "aria-label": stage.dataset.title });
    const defs = make("defs", {}, svg);
    const arrow = make("marker", { id: "graph-arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, defs);
    make("path", { d: "M0 1L7 4L0 7z", class: "graph-arrow" }, arrow);
    (layout.edges || []).forEach(function (edge) { drawEdge(edge, svg); });
    layout.children.forEach(function (place, number) { drawNode(place, data.nodes[number], svg); });
    stage.replaceChildren(svg);
    stage.hidden = false;
    const frame = stage.parentElement;
    const first = layout.children[0]; // where the data come in
    if (first) frame.scrollLeft = svg.getBoundingClientRect().left - stage.getBoundingClientRect().left + first.x + first.width / 2 - frame.clientWidth / 2;
    elk.terminateWorker();
  }

  async function load(stage, whole) {
    const answer = await fetch(stage.dataset.url + (whole ? "?all=1" : ""), { headers: { Accept: "application/json" } });
    if (!answer.ok) return;
    const data = await answer.json();
    await draw(stage, data);
    const button = document.getElementById("graph-whole");
    if (button) {
      button.hidden = !(data.can_unfold && (data.folded || whole));
      button.textContent = whole ? "Fold the blocks" : "Show all " + data.operations + " operations";
      button.onclick = function () { load(stage, !whole); };
    }
  }

  // laid out only when it comes into view: a large graph costs a second of a worker's time
  document.addEventListener("DOMContentLoaded", function () {
    const stage = document.getElementById("graph-stage");
    if (!stage || !window.ELK) return;
    const watch = new IntersectionObserver(function (entries) {
      if (!entries.some(function (entry) { return entry.isIntersecting; })) return;
      watch.disconnect();
      load(stage, false).catch(function (error) { console.warn("The graph could not be drawn; the table of operations says the same.", error); });
    }, { rootMargin: "400px" });
    watch.observe(stage.parentElement);
  });
})();
