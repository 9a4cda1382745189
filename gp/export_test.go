package gp

// SetTile bounds the bytes of a tile of cross-kernel.
func (e *Exact) SetTile(bytes int) { e.s.tile = bytes }
