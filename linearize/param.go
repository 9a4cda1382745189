package linearize

// A Param is one parameter tensor of a network.
type Param struct {
	Name   string
	Shape  []int
	Offset int // index of its first element in θ
}

// Len returns the number of elements.
func (p Param) Len() int {
	n := 1
	for _, d := range p.Shape {
		n *= d
	}
	return n
}
