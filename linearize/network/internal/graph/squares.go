package graph

import "slices"

// A squarer is an operator whose result has elements that each depend on any element
// of an input in one way. BackwardSquares is Backward with the squares of the
// derivatives: from diagonal M in the result it makes that of JᵀMJ in the inputs.
type squarer interface {
	backwardSquares(s *State, nd *Node)
	// single tells whether each element of the result depends on one element alone of
	// the inputs that depend on the network's input.
	single(p *Program, nd *Node) bool
}

var (
	_ squarer = (*MaxPool)(nil)
	_ squarer = (*Index)(nil)
	_ squarer = (*Concat)(nil)
	_ squarer = (*Select)(nil)
	_ squarer = (*Reduce)(nil)
	_ squarer = (*AveragePool)(nil)
	_ squarer = (*AxisMap)(nil)
	_ squarer = (*Binary)(nil)
	_ squarer = unary{}
	_ squarer = Relu{}
)

func (o *MaxPool) backwardSquares(s *State, nd *Node) { o.Backward(s, nd) }
func (o *MaxPool) single(*Program, *Node) bool        { return true }

func (o *Index) backwardSquares(s *State, nd *Node) { o.Backward(s, nd) }
func (o *Index) single(*Program, *Node) bool        { return true }

func (o *Concat) backwardSquares(s *State, nd *Node) { o.Backward(s, nd) }
func (o *Concat) single(*Program, *Node) bool        { return true }

func (o *Select) backwardSquares(s *State, nd *Node) { o.Backward(s, nd) }
func (o *Select) single(*Program, *Node) bool        { return true }

func (Relu) backwardSquares(s *State, nd *Node) { Relu{}.Backward(s, nd) }
func (Relu) single(*Program, *Node) bool        { return true }

func (u unary) backwardSquares(s *State, nd *Node) {
	unary{df: func(x, y float64) float64 { d := u.df(x, y); return d * d }}.Backward(s, nd)
}
func (unary) single(*Program, *Node) bool { return true }

func (o *Reduce) backwardSquares(s *State, nd *Node) {
	(&Reduce{Target: o.Target, Scale: o.Scale * o.Scale}).Backward(s, nd)
}
func (o *Reduce) single(*Program, *Node) bool { return false }

func (o *AveragePool) backwardSquares(s *State, nd *Node) {
	for e := range s.N {
		dx, dy := s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
		o.each(func(to, from int, share float64) { dx[from] += share * share * dy[to] })
	}
}
func (o *AveragePool) single(*Program, *Node) bool { return false }

func (o *AxisMap) backwardSquares(s *State, nd *Node) {
	squared := *o
	squared.Weight = make([]float64, len(o.Weight))
	for i := range o.Out() {
		lo, hi := o.First[i], o.First[i+1]
		for k := lo; k < hi; k++ {
			if slices.Contains(o.Source[lo:k], o.Source[k]) {
				continue // added to the first
			}
			w := 0.0 // an element that is read twice has the sum of its weights
			for j := k; j < hi; j++ {
				if o.Source[j] == o.Source[k] {
					w += o.Weight[j]
				}
			}
			squared.Weight[k] = w * w
		}
	}
	squared.Backward(s, nd)
}
func (o *AxisMap) single(*Program, *Node) bool { return false }

func (o *Binary) backwardSquares(s *State, nd *Node) {
	square := func(d func(a, b, y float64) float64) func(a, b, y float64) float64 {
		return func(a, b, y float64) float64 { v := d(a, b, y); return v * v }
	}
	o.side(s, nd, 0, o.Left, square(o.Fn.da))
	o.side(s, nd, 1, o.Right, square(o.Fn.db))
}

func (o *Binary) single(p *Program, nd *Node) bool {
	return p.Slots[nd.In[0]].Static || p.Slots[nd.In[1]].Static
}
