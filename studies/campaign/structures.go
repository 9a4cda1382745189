package campaign

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/store"
)

// newClassified is a network of random parameters with rows of three classes.
func newClassified(seed uint64, units int, activation network.Layer) (*classified, error) {
	net, err := network.Seeded(seed, network.Shape{2}, network.Dense{Units: units}, activation, network.Dense{Units: 3})
	if err != nil {
		return nil, err
	}
	x, y := mat.NewDense(34, 2, nil), mat.NewDense(30, 1, nil)
	for i := range 34 {
		x.SetRow(i, []float64{math.Sin(float64(i)), math.Cos(2 * float64(i))})
	}
	for i := range 30 {
		y.Set(i, 0, float64(i%3))
	}
	all, err := net.Linearize(context.Background(), x)
	if err != nil {
		return nil, err
	}
	q := &classified{train: all.Slice(0, 30), test: all.Slice(30, 34), theta: net.Theta()}
	if q.sites, err = gp.NewSites(y, q.train.F, glm.Categorical{}); err != nil {
		return nil, err
	}
	q.prior, err = ntk.NewIsotropic(1, nil)
	return q, err
}

// fitted is what the posteriors of structures are fitted to.
var fitted = sync.OnceValues(func() (*classified, error) { return newClassified(0, 8, network.Tanh) })

// A classified has what posteriors over the parameters are fitted to and asked about.
type classified struct {
	train, test *linearize.Batch
	sites       *gp.Sites
	prior       ntk.Prior
	theta       []float64
}

// structures are files of posteriors over the parameters with every structure, which no verb writes.
func structures() []file {
	var list []file
	for s := weightspace.Full; ; s++ {
		name := s.String()
		if known, err := weightspace.ParseStructure(name); err != nil || known != s {
			return list
		}
		list = append(list, file{
			kind: "structure-" + name,
			save: func(ctx context.Context, path string) error {
				q, err := fitted()
				if err != nil {
					return err
				}
				w, err := weightspace.FitStructure(ctx, s, q.train, q.sites, q.prior, q.theta, nil)
				if err != nil {
					return err
				}
				return store.Write(path, "campaign", 1, w.Save)
			},
			load: func(ctx context.Context, path string) ([]byte, error) {
				q, err := fitted()
				if err != nil {
					return nil, err
				}
				return q.load(ctx, path)
			},
		})
	}
}

// load reads a posterior over the parameters and returns the bits of what it answers.
func (q *classified) load(ctx context.Context, path string) ([]byte, error) {
	f, err := store.Open(path, "campaign", 1)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w, err := weightspace.LoadStructure(f, q.train, q.prior, nil)
	if err != nil {
		return nil, err
	}
	var mean, cov mat.Dense
	if err := w.PredictTo(ctx, &mean, &cov, q.test); err != nil {
		return nil, err
	}
	draws := mat.NewDense(2, len(q.theta), nil)
	if err := w.SampleTo(ctx, draws, rand.New(rand.NewPCG(1, 2))); err != nil {
		return nil, err
	}
	answer, numbers := []byte(nil), []float64{w.LogDet(), w.EvidenceAtTheta().Value}
	for _, m := range []*mat.Dense{&mean, &cov, draws} {
		numbers = append(numbers, m.RawMatrix().Data...)
	}
	for _, x := range numbers {
		answer = binary.LittleEndian.AppendUint64(answer, math.Float64bits(x))
	}
	return answer, nil
}
