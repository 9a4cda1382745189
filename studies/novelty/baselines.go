package novelty

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/linearize"
)

const (
	neighbours = 5    // of the k-nearest-neighbour distances
	shrinkage  = 1e-3 // of the Mahalanobis distance, relative to the mean variance
)

// Scores are named scores of the rows of a set, larger for rows that are less like the
// training rows.
type scores map[string][]float64

// The baselines, in the order of the table.
var baselines = []string{"MSP", "energy", "Mahalanobis", "kNN, inputs", "kNN, features"}

// A baseline scores rows by their inputs x, their outputs f and the inputs h of the last
// layer.
type baseline struct {
	classes     bool
	mahalanobis *mahalanobis
	x, h        *mat.Dense // of the training rows
}

// newBaseline fits the baselines to the training rows of p.
func newBaseline(p *problem, train *linearize.Batch) *baseline {
	_, regression := p.lik.(*glm.Gaussian)
	labels := make([]int, train.Len())
	for i := range labels {
		if !regression {
			labels[i] = int(p.y.At(i, 0))
		}
	}
	return &baseline{classes: !regression, mahalanobis: newMahalanobis(p.train, labels), x: p.train, h: unitRows(lastInputs(train))}
}

// addTo adds the scores of the rows of b. The energy of one logit f is that of ±f/2.
func (l *baseline) addTo(s scores, b *linearize.Batch) {
	t := b.Len()
	s["Mahalanobis"], s["kNN, inputs"], s["kNN, features"] = l.mahalanobis.of(b.X), nearest(l.x, b.X), nearest(l.h, unitRows(lastInputs(b)))
	if !l.classes {
		return
	}
	msp, energy := make([]float64, t), make([]float64, t)
	for i := range t {
		f := slices.Clone(b.F.RawRowView(i))
		if len(f) == 1 {
			f = []float64{-f[0] / 2, f[0] / 2}
		}
		sum := floats.LogSumExp(f)
		msp[i], energy[i] = 1-math.Exp(floats.Max(f)-sum), -sum
	}
	s["MSP"], s["energy"] = msp, energy
}

// lastInputs returns the inputs of the layer whose outputs are those of the network.
func lastInputs(b *linearize.Batch) *mat.Dense {
	for _, block := range slices.Backward(b.Blocks) {
		if o, ok := block.(*linearize.Outer); ok && o.A != nil {
			if _, units := o.G.Dims(); units == b.Outputs() {
				return o.A
			}
		}
	}
	panic("novelty: the network does not end in a dense layer")
}

// unitRows returns the rows of x divided by their length.
func unitRows(x *mat.Dense) *mat.Dense {
	u := mat.DenseCopyOf(x)
	n, _ := u.Dims()
	for i := range n {
		row := u.RawRowView(i)
		if length := floats.Norm(row, 2); length > 0 {
			floats.Scale(1/length, row)
		}
	}
	return u
}

// nearest returns the distance of each row of x from the one of train that is nearest but
// four.
func nearest(train, x *mat.Dense) []float64 {
	n, _ := train.Dims()
	t, _ := x.Dims()
	var products mat.Dense
	products.Mul(x, train.T())
	square := func(m *mat.Dense, i int) float64 { return floats.Dot(m.RawRowView(i), m.RawRowView(i)) }
	squares := make([]float64, n)
	for j := range squares {
		squares[j] = square(train, j)
	}
	out, all := make([]float64, t), make([]float64, n)
	for i := range t {
		own := square(x, i)
		for j := range all {
			all[j] = max(0, own+squares[j]-2*products.At(i, j))
		}
		slices.Sort(all)
		out[i] = math.Sqrt(all[neighbours-1])
	}
	return out
}

// A mahalanobis is the class-conditional Mahalanobis distance with one covariance for all
// classes (Lee et al. 2018), in the inputs.
type mahalanobis struct {
	means *mat.Dense
	count []float64
	chol  mat.Cholesky
}

func newMahalanobis(x *mat.Dense, labels []int) *mahalanobis {
	n, d := x.Dims()
	k := slices.Max(labels) + 1
	m := &mahalanobis{means: mat.NewDense(k, d, nil), count: make([]float64, k)}
	for i, l := range labels {
		floats.Add(m.means.RawRowView(l), x.RawRowView(i))
		m.count[l]++
	}
	for l, c := range m.count {
		if c > 0 {
			floats.Scale(1/c, m.means.RawRowView(l))
		}
	}
	centered := mat.DenseCopyOf(x)
	for i, l := range labels {
		floats.Sub(centered.RawRowView(i), m.means.RawRowView(l))
	}
	s := mat.NewSymDense(d, nil)
	s.SymOuterK(1/float64(n), centered.T())
	ridge := shrinkage * mat.Trace(s) / float64(d)
	for j := range d {
		s.SetSym(j, j, s.At(j, j)+ridge)
	}
	if !m.chol.Factorize(s) {
		panic("novelty: the covariance of the inputs has no factor")
	}
	return m
}

// of returns the squared distance of each row of x from the nearest class.
func (m *mahalanobis) of(x *mat.Dense) []float64 {
	t, d := x.Dims()
	out := make([]float64, t)
	for i := range out {
		out[i] = math.Inf(1)
	}
	for l, c := range m.count {
		if c == 0 {
			continue
		}
		u := mat.NewDense(d, t, nil)
		u.Apply(func(j, i int, _ float64) float64 { return x.At(i, j) - m.means.At(l, j) }, u)
		var solved mat.Dense
		if err := m.chol.SolveTo(&solved, u); err != nil {
			panic(err) // the ridge bounds the condition
		}
		for i := range out {
			q := 0.0
			for j := range d {
				q += u.At(j, i) * solved.At(j, i)
			}
			out[i] = min(out[i], q)
		}
	}
	return out
}
