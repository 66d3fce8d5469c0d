// Shows the summary as text, with the token from the address.
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
const answer = await fetch("/api/summary", { headers: { Authorization: `Bearer ${token}` } });
document.querySelector("#summary").textContent = answer.ok
  ? JSON.stringify(await answer.json(), null, 2)
  : await answer.text();
