// A proof that whoever answers at this address knows the token: it is asked for before the token is sent. The server may
// have been killed, and a program of another user may have taken its port.
const Proof = (() => {
  const words = new TextEncoder();
  const hex = bytes => Array.from(new Uint8Array(bytes), one => one.toString(16).padStart(2, "0")).join("");

  async function signed(token, said) {
    const how = { name: "HMAC", hash: "SHA-256" };
    const key = await crypto.subtle.importKey("raw", words.encode(token), how, false, ["sign"]);
    return hex(await crypto.subtle.sign("HMAC", key, words.encode(said)));
  }

  // What was answered, and whether it is a proof. It has the address in it, so nobody can pass on that of another server.
  async function ask(token, signal) {
    const nonce = hex(crypto.getRandomValues(new Uint8Array(32)));
    const answer = await fetch(`/api/proof?${nonce}`, { signal, cache: "no-store" });
    const said = answer.ok && token ? (await answer.text()).trim() : "";
    return { answer, right: said !== "" && said === await signed(token, `sojourn ${location.host} ${nonce}`) };
  }

  return { ask };
})();
