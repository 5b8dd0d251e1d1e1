// What the page shows, as command lines (docs/cli.md).

/** Words that a POSIX shell reads as they stand. */
export function quote(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** `[{name, text}]`: the commands that do what the page does; `file` is a path or a sample's name. */
export function commands({ target, numerics, pin, pipeline }, file, sizes) {
  const common = [
    ...(pipeline && pipeline !== "default" ? ["--pipeline", pipeline] : []),
    ...(target === "cpu" ? [] : ["--target", target]),
    ...(numerics === "default" ? [] : ["--numerics", numerics]),
    ...(pin ?? "").split(",").map((item) => item.trim()).filter(Boolean).flatMap((item) => ["--pin", item]),
  ];
  const bound = Object.entries(sizes).flatMap(([name, size]) => ["--size", `${name}=${size}`]);
  const line = (name, more) => ({
    name, text: ["python", "-m", "compiler", name, file, ...common, ...more].map(quote).join(" "),
  });
  return [line("explain", []), line("passes", []), line("compile", []), line("measure", bound)];
}
