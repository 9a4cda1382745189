package linearize

// tileRows is the number of rows n·C+c of the Jacobian that a pass takes at
// once. It decides the order of sums, so it does not depend on the data.
const tileRows = 2048

// Tile returns how many examples with c outputs, c ≥ 1, a pass over the data
// takes at once: 2048/c, at least one. A NewSource with this tile is read
// without copies.
func Tile(c int) int { return max(1, tileRows/c) }
