// Uploads a model in pieces through the API: progress in bytes, cancel, and resuming after a reload or a lost connection.
// Without JavaScript the form of the page sends the whole file to the same services.
(function () {
  "use strict";

  const app = document.getElementById("upload-app");
  if (!app) return;
  const settings = JSON.parse(document.getElementById("upload-settings").textContent);
  const form = document.getElementById("upload-form");
  const input = form.querySelector("input[type=file]");
  const head = document.getElementById("upload-head");
  const panel = document.getElementById("upload-progress");
  const bar = document.getElementById("upload-bar");
  const status = document.getElementById("upload-status");
  const problems = document.getElementById("upload-problem");
  const cancelButton = document.getElementById("upload-cancel");
  const HEAD_BYTES_MAX = 64 * 1024 * 1024;
  const RETRIES = 5;
  let current = null;

  function element(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function size(bytes) {
    const units = ["B", "KiB", "MiB", "GiB"];
    let value = bytes;
    let unit = 0;
    while (value >= 1024 && unit < 3) {
      value /= 1024;
      unit += 1;
    }
    return (unit ? value.toFixed(1) : value) + " " + units[unit];
  }

  function csrf() {
    return form.querySelector("[name=csrfmiddlewaretoken]").value;
  }

  async function call(method, path, body, headers) {
    const options = { method: method, headers: Object.assign({ "X-CSRFToken": csrf() }, headers || {}) };
    if (body instanceof Blob) options.body = body;
    else if (body) {
      options.body = JSON.stringify(body);
      options.headers["Content-Type"] = "application/json";
    }
    if (current) options.signal = current.abort.signal;
    const answer = await fetch("/api/v1" + path, options);
    const data = answer.status === 204 ? {} : await answer.json();
    if (!answer.ok) throw Object.assign(new Error(data.detail || answer.statusText), { problem: data, status: answer.status });
    return data;
  }

  function showProblem(title, lines) {
    const box = element("div", "alert alert-danger");
    box.setAttribute("role", "alert");
    const body = element("div");
    body.append(element("h2", "alert-title h4", title));
    const list = element("ul", "mb-0");
    lines.forEach(function (line) {
      list.append(element("li", "", line));
    });
    body.append(list);
    box.append(body);
    problems.replaceChildren(box);
  }

  function showRefusal(error) {
    const data = error.problem || { title: "The upload stopped", errors: [] };
    if (data.code === "already-here" && data.errors[0]) {
      window.location.assign("/versions/" + data.errors[0].version_id + "?already=1");
      return;
    }
    const lines = (data.errors || []).map(function (one) {
      return [one.message, one.remedy].filter(Boolean).join(" ");
    });
    showProblem(data.title || "The upload stopped", lines.length ? lines : [error.message]);
  }

  // A model with side files goes as one archive in the form of tar: headers between the files, none of which is read for it.
  function packed(files) {
    if (files.length < 2) return files[0];
    const parts = [];
    Array.from(files).forEach(function (file) {
      parts.push(tarHeader(file), file, new Uint8Array((512 - (file.size % 512)) % 512));
    });
    parts.push(new Uint8Array(1024));
    const model = modelOf(files);
    const changed = Array.from(files, function (file) {
      return file.lastModified;
    });
    return new File(parts, (model ? model.name.replace(/\.onnx$/, "") : "model") + ".tar", {
      lastModified: Math.max.apply(null, changed),
    });
  }

  function modelOf(files) {
    return Array.from(files).find(function (file) {
      return file.name.endsWith(".onnx");
    });
  }

  function tarHeader(file) {
    const header = new Uint8Array(512);
    const write = function (text, at) {
      header.set(new TextEncoder().encode(text), at);
    };
    write(file.name.slice(0, 90), 0);
    write("0000644\u00000000000\u00000000000\u0000", 100);
    write(file.size.toString(8).padStart(11, "0") + "\u000000000000000\u0000", 124);
    write("        0", 148); // spaces where the sum goes, then the type: a file
    write("ustar\u000000", 257);
    const sum = header.reduce(function (total, byte) {
      return total + byte;
    }, 0);
    write(sum.toString(8).padStart(6, "0") + "\u0000 ", 148);
    return header;
  }

  function memoryKey(file) {
    return ["takt-upload", file.name, file.size, file.lastModified].join(":");
  }

  async function digest(file) {
    if (!window.crypto || !window.crypto.subtle || file.size > HEAD_BYTES_MAX) return "";
    const hash = new Uint8Array(await window.crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
    return Array.from(hash, function (byte) {
      return byte.toString(16).padStart(2, "0");
    }).join("");
  }

  async function readHead(file) {
    head.hidden = true;
    if (file.size > HEAD_BYTES_MAX) return;
    const found = window.taktReadModel(new Uint8Array(await file.arrayBuffer()));
    const lines = [];
    if (!found.isModel) lines.push(file.size ? "This does not look like an ONNX model." : "The file is empty.");
    else {
      const names = Object.keys(found.operators).sort();
      const counts = names.map(function (name) {
        return found.operators[name] + " x " + name;
      });
      lines.push("Opset " + found.opset + ": " + counts.join(", ") + ".");
      const known = settings.operators[""];
      const missing = found.custom.concat(
        known
          ? names.filter(function (name) {
              return !known.includes(name);
            })
          : []
      );
      if (missing.length) lines.push("Not supported: " + Array.from(new Set(missing)).join(", ") + ".");
    }
    head.replaceChildren.apply(
      head,
      lines.map(function (line) {
        return element("p", "mb-0", line);
      })
    );
    head.hidden = false;
  }

  async function open(file) {
    const key = memoryKey(file);
    const known = window.localStorage.getItem(key);
    if (known) {
      try {
        return await call("GET", "/uploads/" + known);
      } catch (error) {
        if (!error.problem) throw error;
        window.localStorage.removeItem(key);
      }
    }
    const announced = await call("POST", "/uploads", {
      filename: file.name,
      size: file.size,
      sha256: await digest(file),
      name: form.elements.name.value,
      project: form.elements.project.value || "Default",
    });
    window.localStorage.setItem(key, announced.id);
    return announced;
  }

  function show(done, total) {
    bar.value = total ? (100 * done) / total : 0; // sets the attribute that a check without a measure takes away
    status.textContent = size(done) + " of " + size(total);
  }

  async function pieces(file, upload) {
    let offset = upload.received;
    let failures = 0;
    while (offset < file.size) {
      show(offset, file.size);
      const piece = file.slice(offset, offset + settings.chunk_bytes);
      try {
        const answer = await call("PUT", "/uploads/" + upload.id + "/chunks/" + offset, piece, {
          "Content-Type": "application/octet-stream",
        });
        offset = answer.received;
        failures = 0;
      } catch (error) {
        if (error.name === "AbortError" || error.status === 404 || error.status === 422) throw error;
        if (error.status === 409) offset = (await call("GET", "/uploads/" + upload.id)).received;
        failures += 1;
        if (failures > RETRIES) throw error;
        status.textContent = "Connection lost; trying again from " + size(offset) + ".";
        await pause(500 * 2 ** failures);
      }
    }
    show(file.size, file.size);
  }

  function pause(milliseconds) {
    return new Promise(function (resolve) {
      window.setTimeout(resolve, milliseconds);
    });
  }

  // A worker checks the file: say where it stands until there is a version or a refusal.
  async function checked(id) {
    bar.removeAttribute("value");
    status.textContent = "Waiting for the check.";
    const started = await call("POST", "/uploads/" + id + "/complete", {});
    if (started.model_id) return { id: started.id, isNew: (await call("GET", "/uploads/" + id)).is_new };
    let failures = 0;
    for (let wait = 250; ; wait = Math.min(wait * 1.4, 2000)) {
      await pause(wait);
      let now;
      try {
        now = await call("GET", "/uploads/" + id);
        failures = 0;
      } catch (error) {
        failures += 1;
        if (error.name === "AbortError" || error.status === 404 || failures > RETRIES) throw error;
        wait = 2000;
        continue;
      }
      if (now.version_id) return { id: now.version_id, isNew: now.is_new };
      if (now.problem) throw Object.assign(new Error(now.problem.detail), { problem: now.problem, status: now.problem.status });
      if (now.state === "checking") status.textContent = "Checking the model.";
      else if (now.position) status.textContent = "Waiting for the check: number " + now.position + " in the queue.";
    }
  }

  // The compile begins at once with suggested sizes, unless the person unticked it; its page follows.
  function goOn(version) {
    const next = document.getElementById("compile-after");
    if (!form.elements.compile.checked || !version.isNew) {
      window.location.assign("/versions/" + version.id + (version.isNew ? "" : "?already=1"));
      return;
    }
    next.action = "/versions/" + version.id + "/compile";
    next.submit();
  }

  async function send(files) {
    if (current) return;
    const file = packed(files);
    problems.replaceChildren();
    if (file.size > settings.bytes_max) {
      showProblem("The file is too large", [
        "It has " + size(file.size) + "; the most is " + size(settings.bytes_max) + ". Store the weights in a narrower type.",
      ]);
      return;
    }
    current = { abort: new AbortController(), id: null };
    panel.hidden = false;
    show(0, file.size);
    try {
      await readHead(modelOf(files) || file);
      const upload = await open(file);
      current.id = upload.id;
      await pieces(file, upload);
      const version = await checked(upload.id);
      window.localStorage.removeItem(memoryKey(file));
      goOn(version);
    } catch (error) {
      if (error.problem) window.localStorage.removeItem(memoryKey(file));
      if (error.name !== "AbortError") showRefusal(error);
      panel.hidden = true;
    } finally {
      current = null;
    }
  }

  cancelButton.addEventListener("click", async function () {
    if (!current) return;
    const id = current.id;
    current.abort.abort();
    current = null;
    if (input.files[0]) window.localStorage.removeItem(memoryKey(packed(input.files)));
    if (id) await call("DELETE", "/uploads/" + id).catch(function () {});
    panel.hidden = true;
    head.hidden = true;
    form.reset();
  });

  form.addEventListener("submit", function (event) {
    event.preventDefault();
    if (input.files[0]) send(input.files);
    else showProblem("No file", ["Choose an .onnx file first, or drop one on this page."]);
  });
  input.addEventListener("change", function () {
    problems.replaceChildren();
    if (input.files[0]) readHead(modelOf(input.files) || input.files[0]);
  });

  // The whole page is the drop zone.
  document.addEventListener("dragover", function (event) {
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  document.addEventListener("dragleave", function (event) {
    if (!event.relatedTarget) document.body.classList.remove("dropping");
  });
  document.addEventListener("drop", function (event) {
    event.preventDefault();
    document.body.classList.remove("dropping");
    if (!event.dataTransfer.files.length) return;
    const chosen = new DataTransfer();
    Array.from(event.dataTransfer.files).forEach(function (file) {
      chosen.items.add(file);
    });
    input.files = chosen.files;
    send(input.files);
  });
})();
