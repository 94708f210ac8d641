/** The scroll position, cursor and selection in the list of runs, restored when the user comes back from a run. */
import type { Row } from "../../lib/api";

type Place = { list: string; scroll: number; cursor: number; at: string; picked: Map<string, Row> };

const nowhere: Omit<Place, "list"> = { scroll: 0, cursor: -1, at: "", picked: new Map() };
const kept: Place = { list: "", ...nowhere };

/** Return the saved place if it belongs to this list, otherwise the beginning. */
export const placeIn = (list: string): Place => (kept.list === list ? { ...kept } : { list, ...nowhere });

export function keepPlace(place: Place): void {
  Object.assign(kept, place);
}
