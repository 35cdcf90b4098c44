// Asks the browser for a passkey when the form is sent, and sends what it answers.
const form = document.querySelector("form[data-passkey]");
const problem = document.querySelector("[data-passkey-problem]");

async function credential() {
  if (!window.PublicKeyCredential?.parseCreationOptionsFromJSON) {
    throw new Error("This browser has no passkeys here. They need https, or http://localhost.");
  }
  const options = JSON.parse(form.dataset.options);
  return form.dataset.passkey === "create"
    ? navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
    : navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  problem.textContent = "";
  try {
    form.elements.credential.value = JSON.stringify((await credential()).toJSON());
    form.submit();
  } catch (error) {
    problem.textContent =
      error.name === "SecurityError"
        ? `Passkeys belong to a host name, not to an address: open the console by its name, or as localhost. (${error.message})`
        : error.name === "NotAllowedError"
          ? "The browser gave no passkey: it was cancelled, took too long, or there is none for this site."
          : error.message;
  }
});
