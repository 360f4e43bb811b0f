// Before the first paint: the theme that was chosen here, else that of the system.
try {
  const theme = localStorage.getItem("unseen.theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // storage is off: the system's theme
}
