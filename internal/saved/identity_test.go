package saved_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// given is what a posterior is fitted with, and what a Load is given.
type given struct {
	model linearize.Model
	theta []float64
	prior ntk.Prior
	x, y  *mat.Dense
	lik   gp.Likelihood
	hide  bool // the examples are a Source that only passes over batches
}

func (g *given) kernel() *ntk.NTK { return ntk.New(g.prior, g.theta) }

func (g *given) batch(t *testing.T) *linearize.Batch {
	t.Helper()
	return testref.Must(g.model.Linearize(t.Context(), g.x))(t)
}

// source linearizes the examples 64 at a time.
func (g *given) source() linearize.Source {
	n, d := g.x.Dims()
	s := linearize.NewSource(g.model, n, 64, func(lo, hi int) (*mat.Dense, error) { return g.x.Slice(lo, hi, 0, d).(*mat.Dense), nil })
	if g.hide {
		return struct{ linearize.Source }{s}
	}
	return s
}

func (g *given) targets() *gp.Targets { return &gp.Targets{Y: g.y, Likelihood: g.lik} }

// inducing are five of the training examples.
func (g *given) inducing(t *testing.T) *sparse.Inducing {
	t.Helper()
	rows := []int{0, 5, 10, 15, 20}
	b := testref.Must(linearize.Gather(t.Context(), g.batch(t), rows))(t)
	return &sparse.Inducing{Rows: rows, Batch: b}
}

// A latent is a posterior that can be saved.
type latent interface {
	PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error
	Save(w *store.Writer) error
}

// A method fits and loads a posterior of one kind.
type method struct {
	section string // its JSON section
	fit     func(t *testing.T, g *given) (latent, error)
	load    func(t *testing.T, f *store.File, g *given) (latent, error)
}

func methods() map[string]method {
	sitesOf := func(t *testing.T, g *given) *gp.Sites {
		return testref.Must(gp.NewSites(gp.NewTargets(g.y, g.lik), g.batch(t).F))(t)
	}
	return map[string]method{
		"exact": {"exact.about",
			func(t *testing.T, g *given) (latent, error) {
				return gp.Fit(t.Context(), g.kernel(), g.batch(t), sitesOf(t, g), nil)
			},
			func(t *testing.T, f *store.File, g *given) (latent, error) {
				return gp.Load(f, g.kernel(), g.batch(t), &gp.Options{Targets: g.targets()})
			}},
		"parameters": {"kept.about",
			func(t *testing.T, g *given) (latent, error) {
				return weightspace.FitSums(t.Context(), g.source(), sitesOf(t, g), g.prior, g.theta, nil)
			},
			func(t *testing.T, f *store.File, g *given) (latent, error) {
				return weightspace.LoadSums(t.Context(), f, g.source(), g.targets(), g.prior, g.theta, nil)
			}},
		"sparse": {"sparse.about",
			func(t *testing.T, g *given) (latent, error) {
				return sparse.Fit(t.Context(), g.kernel(), g.source(), sitesOf(t, g), g.inducing(t), nil)
			},
			func(t *testing.T, f *store.File, g *given) (latent, error) {
				return sparse.Load(t.Context(), f, g.kernel(), g.source(), nil, &sparse.Options{Targets: g.targets()})
			}},
	}
}

const rows, columns = 600, 3

// networkOf builds a network of one hidden layer.
func networkOf(t *testing.T, activation network.Layer) *network.Network {
	t.Helper()
	n, err := network.Sequential(network.Shape{columns}, network.Dense{Units: 4}, activation, network.Dense{Units: 2})
	require.NoError(t, err)
	return n
}

func randomly(seed uint64, rows, cols int) *mat.Dense {
	rng, m := rand.New(rand.NewPCG(seed, 9)), mat.NewDense(rows, cols, nil)
	for i := range rows {
		for j := range cols {
			m.Set(i, j, rng.NormFloat64())
		}
	}
	return m
}

func isotropic(t *testing.T, precision float64, mean ...float64) ntk.Prior {
	t.Helper()
	return testref.Must(ntk.NewIsotropic(precision, mean))(t)
}

func fittedWith(t *testing.T) given {
	t.Helper()
	n := networkOf(t, network.Tanh)
	y := mat.NewDense(rows, 1, nil)
	for i := range rows {
		y.Set(i, 0, float64(i%3%2))
	}
	return given{model: n, theta: n.Theta(), prior: isotropic(t, 2), x: randomly(1, rows, columns), y: y, lik: glm.Categorical{}}
}

// anonymous hides the fingerprint of a model, and with inputs its inputs.
type anonymous struct {
	linearize.Model
	inputs bool
}

func (a anonymous) Linearize(ctx context.Context, x *mat.Dense) (*linearize.Batch, error) {
	b, err := a.Model.Linearize(ctx, x)
	if err != nil {
		return nil, err
	}
	hidden := *b
	if hidden.Model = (linearize.ModelFingerprint{}); a.inputs {
		hidden.X = nil
	}
	return &hidden, nil
}

// others changes what was fitted with. The errors name the change: by the fingerprint where the model has one, else by
// what the numbers tell.
var others = []struct {
	name          string
	change        func(t *testing.T, g *given)
	want, numbers string
}{
	{"one parameter by one unit in the last place", func(t *testing.T, g *given) {
		theta := slices.Clone(g.theta)
		theta[3] = math.Nextafter(theta[3], 9)
		g.move(t, theta)
	}, "the parameters of the network are others", "prior is another"},
	{"one parameter", func(t *testing.T, g *given) {
		theta := slices.Clone(g.theta)
		theta[3] += 0.1
		g.move(t, theta)
	}, "the parameters of the network are others", "another|the network's output"},
	{"another graph with the same parameters", func(t *testing.T, g *given) {
		n := testref.Must(networkOf(t, network.ReLU).WithTheta(g.theta))(t)
		g.replace(n)
	}, "the graph of the network is another", "the network's output"},
	{"one row replaced", func(t *testing.T, g *given) { g.replaceRows(1) }, "the inputs are others", "inputs are others"},
	{"570 of 600 rows replaced", func(t *testing.T, g *given) { g.replaceRows(570) }, "the inputs are others", "inputs are others"},
	{"rows in another order", func(t *testing.T, g *given) {
		last, before := mat.Row(nil, rows-1, g.x), mat.Row(nil, rows-2, g.x)
		g.x = mat.DenseCopyOf(g.x)
		g.x.SetRow(rows-1, before)
		g.x.SetRow(rows-2, last)
	}, "the order of the rows is another", "the order of the rows is another"},
	{"fewer rows", func(t *testing.T, g *given) {
		g.x, g.y = g.x.Slice(0, rows-1, 0, columns).(*mat.Dense), g.y.Slice(0, rows-1, 0, 1).(*mat.Dense)
	}, "600 training examples", "600 training examples"},
	{"one target", func(t *testing.T, g *given) {
		g.y = mat.DenseCopyOf(g.y)
		g.y.Set(77, 0, 1-g.y.At(77, 0))
	}, "the targets or the likelihood are others: the residual of training example 77", "the residual of training example 77"},
	{"prior precision", func(t *testing.T, g *given) { g.prior = isotropic(t, math.Nextafter(2, 3)) }, "the prior is another", "the prior is another"},
	{"prior mean", func(t *testing.T, g *given) { g.prior = isotropic(t, 2, 1e-12) }, "the prior is another", "the prior is another"},
}

// replaceRows replaces the last rows.
func (g *given) replaceRows(n int) {
	x := mat.DenseCopyOf(g.x)
	x.Slice(rows-n, rows, 0, columns).(*mat.Dense).Copy(randomly(2, n, columns))
	g.x = x
}

// replace gives another network, as anonymous as the one before.
func (g *given) replace(n *network.Network) {
	g.theta = n.Theta()
	if a, ok := g.model.(anonymous); ok {
		g.model = anonymous{n, a.inputs}
		return
	}
	g.model = n
}

func (g *given) move(t *testing.T, theta []float64) {
	t.Helper()
	inner := g.model
	if a, ok := inner.(anonymous); ok {
		inner = a.Model
	}
	n := testref.Must(inner.(*network.Network).WithTheta(theta))(t)
	g.replace(n)
}

func written(t *testing.T, p latent) *store.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.gp")
	require.NoError(t, store.Write(path, "test", 1, p.Save))
	return opened(t, path)
}

func opened(t *testing.T, path string) *store.File {
	t.Helper()
	f := testref.Must(store.Open(path, "test", 1))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

func predicted(t *testing.T, p latent, at *linearize.Batch) []float64 {
	t.Helper()
	var mean, cov mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, at))
	return append(slices.Clone(mean.RawMatrix().Data), cov.RawMatrix().Data...)
}

// Every Load gives the same predictions to the last bit for what the posterior was fitted with, and refuses everything
// else with an error that names it.
func TestLoadsTellOthers(t *testing.T) {
	for name, m := range methods() {
		t.Run(name, func(t *testing.T) {
			g := fittedWith(t)
			test := (&given{model: g.model, x: randomly(3, 5, columns)}).batch(t)
			p := testref.Must(m.fit(t, &g))(t)
			f := written(t, p)
			back := testref.Must(m.load(t, f, &g))(t)
			require.Equal(t, predicted(t, p, test), predicted(t, back, test))
			for _, o := range others {
				other := g
				o.change(t, &other)
				_, err := m.load(t, f, &other)
				require.ErrorAs(t, err, new(*store.Error), o.name)
				require.ErrorContains(t, err, o.want, o.name)
			}
		})
	}
}

// A model without a fingerprint is known by its outputs and its Jacobian, and examples without inputs by those of each
// example.
func TestLoadsTellOthersByNumbers(t *testing.T) {
	for name, m := range methods() {
		for _, inputs := range []bool{false, true} {
			g := fittedWith(t)
			g.model, g.hide = anonymous{g.model, inputs}, inputs
			p := testref.Must(m.fit(t, &g))(t)
			f := written(t, p)
			require.NoError(t, testref.Err(m.load(t, f, &g)), name)
			for _, o := range others {
				other := g
				o.change(t, &other)
				_, err := m.load(t, f, &other)
				require.ErrorAs(t, err, new(*store.Error), "%s: %s", name, o.name)
				if !inputs {
					require.Regexp(t, o.numbers, err.Error(), "%s: %s", name, o.name)
				}
			}
		}
	}
}

// A posterior of an older format is refused, and the error says what to do.
func TestLoadsRefuseOldVersions(t *testing.T) {
	for name, m := range methods() {
		g := fittedWith(t)
		p := testref.Must(m.fit(t, &g))(t)
		f := written(t, p)
		path, old := filepath.Join(t.TempDir(), "old.gp"), -1.0
		require.NoError(t, store.Write(path, "test", 1, func(w *store.Writer) error {
			for _, section := range f.Sections() {
				data, err := f.Bytes(section)
				if err != nil {
					return err
				}
				if section == m.section {
					var about map[string]any
					if err := json.Unmarshal(data, &about); err != nil {
						return err
					}
					old = min(1, about["Version"].(float64)-1) // of which no program reads any
					about["Version"] = old
					w.JSON(section, about)
					continue
				}
				w.Bytes(section, data)
			}
			return nil
		}))
		_, err := m.load(t, opened(t, path), &g)
		require.ErrorContains(t, err, fmt.Sprintf("version %v of its format", old), name)
		require.ErrorContains(t, err, "fit and save it again", name)
	}
}
