// Reads what an ONNX file says of itself, in the browser, while its bytes travel: opset, operators, and whether it is one.
// A model is a protocol buffer; only field numbers of ModelProto, GraphProto, NodeProto and OperatorSetIdProto are needed.
(function () {
  "use strict";

  const MODEL = { 1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2 };

  function varint(bytes, at) {
    let value = 0;
    let factor = 1;
    for (let i = at; i < bytes.length && i < at + 10; i += 1) {
      value += (bytes[i] & 127) * factor;
      if (bytes[i] < 128) return [value, i + 1];
      factor *= 128;
    }
    return null;
  }

  // Calls each(number, kind, value, start, end) for every field in [from, to); false when the bytes are no such message.
  function fields(bytes, from, to, each) {
    let at = from;
    while (at < to) {
      const tag = varint(bytes, at);
      if (!tag) return false;
      const number = Math.floor(tag[0] / 8);
      const kind = tag[0] % 8;
      let next;
      let value = 0;
      let start = tag[1];
      if (kind === 0 || kind === 2) {
        const content = varint(bytes, tag[1]);
        if (!content) return false;
        value = content[0];
        start = content[1];
        next = kind === 2 ? start + value : start;
      } else if (kind === 1) next = tag[1] + 8;
      else if (kind === 5) next = tag[1] + 4;
      else return false;
      if (next > to) return false;
      each(number, kind, value, start, next);
      at = next;
    }
    return true;
  }

  function text(bytes, start, end) {
    return new TextDecoder().decode(bytes.subarray(start, end));
  }

  // {isModel, opset, operators: {"Conv": 12}, custom: ["domain.Op"]} of a whole file.
  function readModel(bytes) {
    const found = { isModel: true, opset: 0, operators: {}, custom: [] };
    const whole = fields(bytes, 0, bytes.length, function (number, kind, value, start, end) {
      if (MODEL[number] !== kind) found.isModel = false;
      else if (number === 8) opset(bytes, start, end, found);
      else if (number === 7) {
        fields(bytes, start, end, function (inner, innerKind, ignored, from, to) {
          if (inner === 1 && innerKind === 2) node(bytes, from, to, found);
        });
      }
    });
    found.isModel = found.isModel && whole && bytes.length > 0;
    return found;
  }

  function opset(bytes, start, end, found) {
    let domain = "";
    let version = 0;
    fields(bytes, start, end, function (number, kind, value, from, to) {
      if (number === 1) domain = text(bytes, from, to);
      if (number === 2) version = value;
    });
    if (domain === "" || domain === "ai.onnx") found.opset = version;
  }

  function node(bytes, start, end, found) {
    let name = "";
    let domain = "";
    fields(bytes, start, end, function (number, kind, value, from, to) {
      if (number === 4) name = text(bytes, from, to);
      if (number === 7) domain = text(bytes, from, to);
    });
    if (domain && domain !== "ai.onnx") found.custom.push(domain + "." + name);
    else found.operators[name] = (found.operators[name] || 0) + 1;
  }

  window.taktReadModel = readModel;
})();
