package calibration

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

// A part is some rows of a data set: inputs n×D and targets as the likelihood
// wants them.
type part struct{ x, y *mat.Dense }

func (p part) len() int {
	if p.x == nil {
		return 0
	}
	n, _ := p.x.Dims()
	return n
}

// head returns the first n rows.
func (p part) head(n int) part {
	_, d := p.x.Dims()
	_, t := p.y.Dims()
	return part{p.x.Slice(0, n, 0, d).(*mat.Dense), p.y.Slice(0, n, 0, t).(*mat.Dense)}
}

// A problem is data, a likelihood and how its network is made.
type problem struct {
	lik     glm.Likelihood
	train   part
	valid   part // of temperature scaling; the posteriors do not see it
	test    part
	recipe  recipe
	members int // networks in the mean of several; the first is the network itself
	others  []other
}

// An other is a set of inputs of another kind than the test rows.
type other struct {
	name string
	x    *mat.Dense
}

// A recipe says how a network is trained.
type recipe struct {
	shape  network.Shape
	layers []network.Layer
	delta  float64 // prior precision of training; 0 with sgd
	opt    train.Options
	sgd    *sgd   // plain gradient descent without decay instead
	file   string // the first network is read from here
	first  int    // seed of the first network
}

// A fit is one posterior of a problem.
type fit struct {
	name     string
	delta    float64
	refit    bool
	inducing int  // 0: exact
	kept     int  // exact on this many rows that say most (E16); 0: on all
	sample   int  // training rows of leave-one-out; 0: all
	keep     bool // keep the posterior in the cache
}

// link returns how a posterior's predictive is computed: the default, with a
// tolerance of 1e-3 for more than two classes, because each case takes some hundred
// thousand integrals.
func (p *problem) link() predictive.Link {
	if p.classes() <= 2 {
		return nil
	}
	return predictive.QMC{Tol: 1e-3, MaxPoints: 4096}
}

// bestRows are the test rows on which the best scale is sought for more than two
// classes.
const bestRows = 2000

// classes is the number of classes of a likelihood with a softmax, else 1.
func (p *problem) classes() int {
	if _, ok := p.lik.(glm.Categorical); !ok {
		return 1
	}
	n := 0
	for _, l := range labels(p.train.y) {
		n = max(n, l+1)
	}
	return n
}

// labels returns the classes of y.
func labels(y *mat.Dense) []int {
	n, _ := y.Dims()
	l := make([]int, n)
	for i := range l {
		l[i] = int(math.Round(y.At(i, 0)))
	}
	return l
}
