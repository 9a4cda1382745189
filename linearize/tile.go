package linearize

// tileRows is the number of rows n·C+c of the Jacobian that a pass reads at once. It fixes the order of sums, so it
// does not depend on the data.
const tileRows = 2048

// Tile returns the number of examples with c outputs, c ≥ 1, that a pass over the data reads at once: 2048/c, and
// at least one. A NewSource with this tile is read without copies.
func Tile(c int) int { return max(1, tileRows/c) }
