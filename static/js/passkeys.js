// Passkeys: forms with data-passkey ask the browser for a credential and send what it answers. No library: the browser's
// own JSON forms where it has them, base64url otherwise.
(() => {
  "use strict";
  if (!window.PublicKeyCredential || !navigator.credentials) return;

  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0)).buffer;
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const listed = (list) => (list || []).map((one) => ({ ...one, id: bytes(one.id) }));

  const creation = (options) => ({
    ...options,
    challenge: bytes(options.challenge),
    user: { ...options.user, id: bytes(options.user.id) },
    excludeCredentials: listed(options.excludeCredentials),
    // A passkey signs in alone: it is kept on the device and asks for its PIN or the person's finger.
    authenticatorSelection: { ...options.authenticatorSelection, residentKey: "required", requireResidentKey: true, userVerification: "required" },
  });
  const request = (options) => ({ ...options, challenge: bytes(options.challenge), allowCredentials: listed(options.allowCredentials) });

  const written = (credential) => {
    const { response } = credential;
    const fields = ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"];
    const answer = {};
    for (const name of fields) if (response[name]) answer[name] = text(response[name]);
    if (response.getTransports) answer.transports = response.getTransports();
    return JSON.stringify({
      id: credential.id, rawId: text(credential.rawId), type: credential.type, response: answer,
      clientExtensionResults: credential.getClientExtensionResults(), authenticatorAttachment: credential.authenticatorAttachment,
    });
  };

  const asked = async (form) => {
    if (form.dataset.passkey === "sign-in") {
      const response = await fetch(form.action, { headers: { Accept: "application/json" } });
      if (!response.ok) throw new Error(response.status === 429 ? "Too many tries. Wait a few minutes." : "Takt did not answer.");
      return (await response.json()).request_options.publicKey;
    }
    const data = JSON.parse(document.getElementById("passkey-options").textContent);
    return (data.creation_options || data.request_options).publicKey;
  };

  const use = async (form) => {
    const publicKey = await asked(form);
    const credential = form.dataset.passkey === "create"
      ? await navigator.credentials.create({ publicKey: creation(publicKey) })
      : await navigator.credentials.get({ publicKey: request(publicKey) });
    form.elements.credential.value = written(credential);
    form.submit();
  };

  for (const form of document.querySelectorAll("form[data-passkey]")) {
    form.hidden = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const error = form.querySelector("[data-passkey-error]");
      error.hidden = true;
      try {
        await use(form);
      } catch (failure) {
        error.textContent = failure.name === "NotAllowedError" ? "The passkey was not used. Try again." : failure.message;
        error.hidden = false;
      }
    });
  }
})();
