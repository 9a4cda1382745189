package explain

// SetTile sets how many test rows Each holds the predictions of at a time.
func (w *Without) SetTile(n int) { w.tile = n }
