package linearize

// A FactoredModel is a Model that may keep the Jacobian of a convolution with few
// weights as columns of a Full block, and can be asked not to.
type FactoredModel interface {
	Model
	// Factored returns the same model, whose batches hold a Conv for each
	// convolution even where that takes more memory than its columns. Outputs and
	// Jacobian are the same.
	Factored() Model
}

// Factored returns the examples of src with a Conv for each convolution, which
// Kronecker factors need. It changes sources that NewSource made for a
// FactoredModel, and what Rebatch, Chain, Without and From made of such sources.
// Any other Source is returned as it is, and so is a Batch.
func Factored(src Source) Source {
	if f, ok := src.(interface{ factored() Source }); ok {
		return f.factored()
	}
	return src
}

func (s *stream) factored() Source {
	m, ok := s.model.(FactoredModel)
	if !ok {
		return s
	}
	f := *s
	f.model = m.Factored()
	return &f
}

func (r *rebatched) factored() Source { return Rebatch(Factored(r.src), r.size) }

func (c chain) factored() Source {
	parts := make([]Source, len(c))
	for i, s := range c {
		parts[i] = Factored(s)
	}
	return Chain(parts...)
}

func (w *without) factored() Source { return Without(Factored(w.src), w.drop) }
