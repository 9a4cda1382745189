package novelty

import (
	"context"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/store"
)

// savedVersion is the version of the sections that Save writes.
const savedVersion = 1

// savedDetector is the JSON section of a stored Detector.
type savedDetector struct {
	Version int
	Route   route
	Rows    []int // the training examples that stand for all
	Tails   []int // numbers of each distribution
	Inputs  []int // rows and columns; nil without inputs
}

// Save adds the detector to a store, in sections whose names start with "novelty.": the
// inputs that it kept, leave-one-out distances, and of a route through inducing examples
// the sums over the training examples. The factor beside an exact posterior is not saved;
// Load computes it again from the kernel of the posterior.
func (d *Detector) Save(w *store.Writer) error {
	s := savedDetector{Version: savedVersion, Route: d.route, Rows: d.rows}
	for i := range d.tails {
		s.Tails = append(s.Tails, len(d.tails[i].sorted))
	}
	if d.inputs != nil {
		s.Inputs = []int{d.inputs.z.Rows, d.inputs.z.Cols}
	}
	w.JSON("novelty.about", s)
	w.Floats("novelty.noise", []float64{d.noise})
	w.Floats("novelty.scores", d.leftOut)
	for i := range d.tails {
		w.Floats(tailSection("novelty.", i), d.tails[i].sorted)
	}
	if d.inputs != nil {
		w.Floats("novelty.mean", d.inputs.mean)
		w.Floats("novelty.scale", d.inputs.scale)
		w.Floats("novelty.inputs", d.inputs.z.Data)
	}
	if p, ok := d.variance.of.(*sparse.Projected); ok {
		sums, err := p.Sums().MarshalBinary()
		if err != nil {
			return err
		}
		w.Bytes("novelty.sums", sums)
	}
	return nil
}

// tailSection names the section of the i-th distribution.
func tailSection(prefix string, i int) string { return prefix + "distance" + string(rune('0'+i)) }

// Load returns the detector that Save wrote beside post, whose kernel is k. Its scores are
// those of the saved one bit for bit. It factors a matrix of the size of K beside an exact
// posterior, or else one of the inducing examples, and one of the inputs, and needs no pass
// over the training examples. What is damaged or belongs to another posterior is a
// *store.Error.
func Load(ctx context.Context, f *store.File, k ntk.Kernel, post gp.Dual, o *Options) (*Detector, error) {
	o = o.withDefaults()
	var s savedDetector
	r := f.Reader("novelty.")
	r.JSON("about", &s)
	saved.Version(r, s.Version, savedVersion)
	if r.Err() != nil {
		return nil, r.Err()
	}
	d := &Detector{route: s.Route, variance: variance{k: k}, rows: s.Rows}
	if len(s.Tails) != 1 && (len(s.Tails) != 3 || len(s.Inputs) != 2) || !d.route.fits(post) {
		return nil, r.Fail(saved.WriteAgain, saved.Impossible)
	}
	noise := r.Floats("noise", 1)
	d.leftOut = r.Floats("scores", len(s.Rows))
	d.training = glm.SortedScores(d.leftOut)
	for i, n := range s.Tails {
		sorted := r.Floats(tailSection("", i), n)
		if r.Err() == nil && n > 0 {
			d.tails = append(d.tails, newTail(sorted))
		}
	}
	if len(s.Tails) == 3 {
		n, cols := s.Inputs[0], s.Inputs[1]
		d.inputs = &inputs{mean: r.Floats("mean", cols), scale: r.Floats("scale", cols), z: blas64.General{Rows: n, Cols: cols, Stride: cols, Data: r.Floats("inputs", n, cols)}}
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	if d.noise = noise[0]; !(d.noise > 0) || len(d.tails) != len(s.Tails) || d.inputs != nil && dense.NotFinite(d.inputs.z.Data) >= 0 {
		return nil, r.Fail(saved.WriteAgain, saved.Impossible)
	}
	var sums *sparse.Sums
	if !d.route.Exact {
		raw, err := f.Bytes("novelty.sums")
		if err != nil {
			return nil, err
		}
		sums = new(sparse.Sums)
		if err := sums.UnmarshalBinary(raw); err != nil {
			return nil, r.Fail(saved.WriteAgain, "%v", err)
		}
	}
	if d.inputs != nil {
		if err := d.inputs.factor(ctx); err != nil {
			return nil, err
		}
	}
	return d, d.condition(ctx, post, sums, o)
}

// fits tells whether v of post can be computed on this route.
func (r route) fits(post gp.Dual) bool {
	n := post.Data().Len()
	for i, row := range r.Inducing {
		if row < 0 || row >= n || i > 0 && row <= r.Inducing[i-1] {
			return false
		}
	}
	switch p := post.(type) {
	case *gp.Exact:
		return !r.Reused && (r.Exact || len(r.Inducing) > 0)
	case *sparse.Posterior:
		return !r.Exact && (len(r.Inducing) > 0 || r.Reused && p.Approximation() == sparse.Nystrom && !p.Inducing().Pairs())
	}
	return !r.Exact && !r.Reused && len(r.Inducing) > 0
}
