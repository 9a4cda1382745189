package linearize

// A Param is one parameter tensor of a network.
type Param struct {
	Name   string
	Shape  []int
	Offset int // place of its first element in θ
}

// Len returns the number of elements.
func (p Param) Len() int {
	n := 1
	for _, d := range p.Shape {
		n *= d
	}
	return n
}

func (p Param) Span(transposed bool) *Span {
	rows := 1
	if len(p.Shape) > 1 {
		rows = p.Shape[0]
	}
	cols := p.Len()
	if rows > 0 {
		cols /= rows
	}
	return &Span{Name: p.Name, Offset: p.Offset, Rows: rows, Cols: cols, Transposed: transposed}
}
