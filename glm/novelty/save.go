package novelty

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// Versions of the saved sections.
const (
	savedVersion = 2
	fromMean     = 1 // with the Mahalanobis distance from the mean, which Load still reads
)

// savedDetector is the JSON section of a saved Detector.
type savedDetector struct {
	Version int
	Route   route
	Rows    []int // positions of the sampled training examples
	Tails   []int // number of distances in each distribution
	Columns int   // columns of the inputs; 0 without inputs
}

// Save adds the detector to a store, in sections whose names begin with "novelty.": the leave-one-out distances
// and, where v is computed through inducing examples, the sums over training examples. It does not save the factor
// beside an exact posterior, which Load computes from the kernel of the posterior, nor the inputs, which Load reads
// from the training examples.
func (d *Detector) Save(w *store.Writer) error {
	s := savedDetector{Version: savedVersion, Route: d.route, Rows: d.rows}
	if d.inputs != nil && d.inputs.own == nil {
		s.Version = fromMean
	}
	for i := range d.tails {
		s.Tails = append(s.Tails, len(d.tails[i].sorted))
	}
	if d.inputs != nil {
		s.Columns = d.inputs.z.Cols
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
	}
	if p := d.variance.through; p != nil {
		p.Sums().Save(w, "novelty.sums")
	}
	return nil
}

// tailSection returns the name of the section with distribution i.
func tailSection(prefix string, i int) string { return prefix + "distance" + string(rune('0'+i)) }

// Load returns the detector that Save wrote beside post, whose kernel is k. Its scores are equal to the scores of
// the saved detector bit for bit. Load factors the kernel matrix of an exact posterior, or of the inducing examples
// otherwise, and reads and factors the inputs. The error is a *store.Error for damaged sections, and for sections
// that belong to another posterior.
func Load(ctx context.Context, f *store.File, k ntk.Kernel, post gp.Dual, o *Options) (*Detector, error) {
	o = o.withDefaults()
	var s savedDetector
	r := f.Reader("novelty.")
	r.JSON("about", &s)
	if s.Version != fromMean {
		saved.Version(r, s.Version, savedVersion)
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	d := &Detector{route: s.Route, variance: variance{k: k}, rows: s.Rows}
	if len(s.Tails) != 1 && (len(s.Tails) != 3 || s.Columns < 1) || !ascending(s.Rows, post.Data().Len()) || !d.route.fits(post) {
		return nil, r.Fail(saved.WriteAgain, saved.Impossible)
	}
	noise := r.Floats("noise", 1)
	d.leftOut = r.Floats("scores", len(s.Rows))
	d.training = score.SortedScores(d.leftOut)
	for i, n := range s.Tails {
		sorted := r.Floats(tailSection("", i), n)
		if r.Err() == nil && n > 0 && slices.IsSorted(sorted) && !math.IsNaN(sorted[0]) {
			d.tails = append(d.tails, newTail(sorted))
		}
	}
	if len(s.Tails) == 3 {
		d.inputs = &inputs{mean: r.Floats("mean", s.Columns), scale: r.Floats("scale", s.Columns)}
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	if d.noise = noise[0]; !(d.noise > 0) || len(d.tails) != len(s.Tails) {
		return nil, r.Fail(saved.WriteAgain, saved.Impossible)
	}
	var sums *sparse.Sums
	if !d.route.Exact {
		if sums = sparse.LoadSums(r, "sums"); r.Err() != nil {
			return nil, r.Err()
		}
	}
	if d.inputs != nil {
		if d.inputs.z = dense.New(len(s.Rows), s.Columns); !(floats.Min(d.inputs.scale) > 0) {
			return nil, r.Fail(saved.WriteAgain, saved.Impossible)
		}
		if ok, err := d.inputs.read(ctx, post.Data(), d.rows); err != nil || !ok {
			return nil, cmp.Or(err, r.Fail(saved.WriteAgain, saved.Impossible))
		}
		if ok, err := d.inputs.factor(ctx); err != nil || !ok {
			return nil, cmp.Or(err, r.Fail(saved.WriteAgain, saved.Impossible))
		}
		if s.Version != fromMean {
			if err := d.inputs.measure(ctx); err != nil {
				return nil, err
			}
		}
	}
	return d, d.condition(ctx, post, sums, o)
}

// ascending tells whether rows are different positions below n in ascending order.
func ascending(rows []int, n int) bool {
	for i, row := range rows {
		if row < 0 || row >= n || i > 0 && row <= rows[i-1] {
			return false
		}
	}
	return true
}

// fits tells whether v can be computed beside post in the way of r.
func (r route) fits(post gp.Dual) bool {
	if !ascending(r.Inducing, post.Data().Len()) {
		return false
	}
	if _, ok := post.(conditioner); ok && r.Exact {
		return !r.Reused
	}
	return !r.Exact && (len(r.Inducing) > 0 || r.Reused) && (!r.Reused || reusable(post))
}
