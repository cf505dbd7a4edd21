// Words and numbers for people. Pure, so that nothing here touches the document.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(count) {
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 || Number.isInteger(value) ? 0 : 1;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

export function count(number) {
  return number.toLocaleString('en-US');
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function amount(value, unit) {
  if (unit === 'bytes') return bytes(value);
  if (unit === 'cpu_millis') return (value / 1000).toLocaleString('en-US', { maximumFractionDigits: 2 });
  return count(value);
}

export function duration(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const pad = (value) => String(value).padStart(2, '0');
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${pad(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${pad(Math.floor(seconds / 60) % 60)} m`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds / 3600) % 24} h`;
}

export function ago(ms) {
  return ms < 2000 ? 'now' : `${duration(ms)} ago`;
}

export function outcomeWords(outcome) {
  return outcome.replaceAll('_', ' ');
}

// Colour and sign of an outcome; the words stand beside them.
export function outcomeKind(outcome) {
  if (outcome === 'passed') return 'good';
  if (outcome === 'cancelled' || outcome === 'no_tests') return 'soft';
  if (outcome === 'failed' || outcome === 'build_failed' || outcome === 'collection_failed') return 'bad';
  return 'warn';
}

export const SIGNS = { good: '✓', bad: '✕', warn: '!', soft: '–' };
