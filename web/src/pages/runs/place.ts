/** Where one was in the list of runs, for whoever comes back to it from a run. */
import type { Row } from "../../lib/api";

type Place = { list: string; scroll: number; cursor: number; at: string; picked: Map<string, Row> };

const nowhere: Omit<Place, "list"> = { scroll: 0, cursor: -1, at: "", picked: new Map() };
const kept: Place = { list: "", ...nowhere };

/** The place in a list; the beginning, where it is another list than the one that was left. */
export const placeIn = (list: string): Place => (kept.list === list ? { ...kept } : { list, ...nowhere });

export function keepPlace(place: Place): void {
  Object.assign(kept, place);
}
