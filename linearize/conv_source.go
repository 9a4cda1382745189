package linearize

// A FactoredModel is a Model that holds the Jacobian of a convolution with few weights as columns of a Full block,
// unless it is told not to.
type FactoredModel interface {
	Model
	// Factored returns the same model with another form of the Jacobian: batches have a Conv for each convolution,
	// even where that takes more memory than columns. Outputs and Jacobian have the same values.
	Factored() Model
}

// Factored returns the examples of src with a Conv for each convolution, as Kronecker factors need. It changes
// sources made by NewSource from a FactoredModel, and returns any other Source, such as a Batch, unchanged.
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
