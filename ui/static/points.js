// Points of the groups of a match: pairs of games in the words of pairs, larger groups and parts of points as shares.
import { percent } from "./common.js";

const HALVES = ["0", "½", "1", "1½", "2"]; // points of a pair, by quarters of its share
const QUARTERS = ["0 %", "25 %", "50 %", "75 %", "100 %"];

/** Return whether a match of a report or a row has more than two games of an opening, as those of three players. */
export const isOfGroups = ({ wins, draws, losses, pentanomial }) => wins + draws + losses > 2 * pentanomial.reduce((sum, number) => sum + number, 0);

/** Return the labels of the places of a histogram, no point first: points of a pair, or shares of a group, to the nearest quarter. */
export const places = (match) => (isOfGroups(match) ? QUARTERS : HALVES);

/** Return the points of a pair or group of games, such as `1½`, or `58 %` where half points cannot state them; "…" for an incomplete one. */
export function short({ points, games }) {
  if (points === null) return "…";
  const quarters = Math.round(4 * points);
  return games.length > 2 || Math.abs(4 * points - quarters) > 1e-9 ? percent(points) : HALVES[quarters];
}

/** Return them with what they are of: `1½ of 2`, `58 % of 3 games`. */
export function outcome(group) {
  if (group.points === null) return "incomplete";
  return HALVES.includes(short(group)) ? `${short(group)} of 2` : `${short(group)} of ${group.games.length} games`;
}
