package linearize

// ChunkRows is the number of outputs whose features are formed at once. It
// decides the order of sums, so it is the same everywhere, whatever the
// batches of the data are.
const ChunkRows = 2048

// Tile returns the number of examples with c outputs that a pass over the data
// takes at once. A NewSource with this tile is read without copies.
func Tile(c int) int { return max(1, ChunkRows/c) }
