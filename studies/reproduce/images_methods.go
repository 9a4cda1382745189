package reproduce

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/ntk"
)

// An imagesFit is a trained network with what the methods need.
type imagesFit struct {
	job   *imagesJob
	data  *imagesData
	net   *network.Network
	jac   linearize.Model // the network with the factors of its convolutions
	theta []float64
	prior ntk.Prior
	train *linearize.Batch
	sites *gp.Sites
	kfac  weightspace.Weights // at θ*
	out   *imagesResult
}

var imagesLikelihood = glm.Categorical{}

func newImagesFit(ctx context.Context, j *imagesJob, data *imagesData, net *network.Network, trained *train.Result) (*imagesFit, error) {
	f := &imagesFit{job: j, data: data, net: net, jac: net.Factored(), theta: net.Theta()}
	f.out = &imagesResult{Precision: result.Float(j.precision), Parameters: len(f.theta), GradientNorm: result.Float(trained.GradientNorm), Methods: map[string]imagesScores{}}
	f.warn(trained.Warnings)
	var err error
	if f.prior, err = ntk.NewIsotropic(j.precision, nil); err != nil {
		return nil, err
	}
	if f.train, err = f.jac.Linearize(ctx, data.train.X); err != nil {
		return nil, err
	}
	if f.sites, err = gp.NewSites(gp.NewTargets(data.train.Y, imagesLikelihood), f.train.F); err != nil {
		return nil, err
	}
	f.kfac, err = f.structure(ctx, weightspace.KFAC, f.sites, nil)
	return f, err
}

func (f *imagesFit) warn(list []error) {
	for _, err := range list {
		f.out.Warnings = append(f.out.Warnings, err.Error())
	}
}

// structure fits a posterior with a structure at these sites around a center, nil for
// θ*.
func (f *imagesFit) structure(ctx context.Context, s weightspace.Structure, sites *gp.Sites, center []float64) (weightspace.Weights, error) {
	return weightspace.FitStructure(ctx, s, f.train, sites, f.prior, f.theta, &weightspace.Options{Limits: linearize.Limits{Memory: f.job.o.MaxMemory}, Center: center})
}

// An imagesMethod scores one way to predict.
type imagesMethod struct {
	key, title string
	run        func(f *imagesFit, ctx context.Context) error
}

// imagesMethods are those of the study images, in the order of the tables.
var imagesMethods = []imagesMethod{
	{"map", "MAP", (*imagesFit).mapEstimate},
	{"bnn", "BNN", (*imagesFit).bnn},
	{"glm", "GLM", (*imagesFit).glm},
	{"diag", "GLM diagonal", (*imagesFit).diagonal},
	{"refined", "GLM refined", (*imagesFit).refined}, // and ours
}

// scoreAll applies the methods one after the other.
func (f *imagesFit) scoreAll(ctx context.Context, progress Progress) (*imagesResult, error) {
	for i, method := range f.job.methods {
		progress(i, len(f.job.methods))
		if err := method.run(f, ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", method.title, err)
		}
	}
	return f.out, nil
}

// A prediction says for rows E[y|x], N×C, and log p(y|x) of their targets. Rows
// without targets have no log p.
type prediction func(ctx context.Context, rows Rows) (response *mat.Dense, logp []float64, err error)

// judge scores a predictive. The entropies that tell foreign rows are those of the same
// predictive, or of another where it is not nil.
func (f *imagesFit) judge(ctx context.Context, method string, p, unscaled prediction) error {
	response, logp, err := p(ctx, f.data.known)
	if err != nil {
		return err
	}
	size, at := f.job.size, 0
	_, c := response.Dims()
	next := func(n int) (lo, hi int) { // the next n rows
		at += n
		return at - n, at
	}
	scores := func(n int) ClassScores {
		const bins = 15
		lo, hi := next(n)
		return ScoreClasses(imagesLikelihood, f.data.known.slice(lo, hi).Y, response.Slice(lo, hi, 0, c).(*mat.Dense), logp[lo:hi], bins)
	}
	s := imagesScores{Valid: scores(size.valid), Test: scores(size.test)}
	for range size.angles {
		lo, hi := next(size.turned)
		s.Turned = append(s.Turned, result.Float(score.NLL(logp[lo:hi])))
	}
	if unscaled == nil {
		unscaled = p
	} else if response, _, err = unscaled(ctx, Rows{X: f.data.known.X}); err != nil {
		return err
	}
	foreign, _, err := unscaled(ctx, f.data.foreign)
	if err != nil {
		return err
	}
	own := entropies(response.Slice(size.valid, size.valid+size.test, 0, c).(*mat.Dense))
	letters := entropies(foreign.Slice(0, size.letters, 0, c).(*mat.Dense))
	s.Letters = result.Float(score.AUROC(own, letters))
	s.Right = result.Float(score.AUROC(own, entropies(foreign.Slice(size.letters, 2*size.letters, 0, c).(*mat.Dense))))
	s.Entropy = [2][]result.Float{shares(own, math.Log(float64(c))), shares(letters, math.Log(float64(c)))}
	f.out.Methods[method] = s
	return ctx.Err()
}

// withMoments is a posterior with the mean, T×C, and the covariances, T·C×C, of f at the examples of a batch.
type withMoments interface {
	PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error
}

// linked is the predictive of a link for the moments of a posterior with the covariance
// scaled. A nil posterior is the network alone.
func (f *imagesFit) linked(link predictive.Link, post withMoments, scale float64) prediction {
	return func(ctx context.Context, rows Rows) (*mat.Dense, []float64, error) {
		mean, cov, err := f.moments(ctx, post, rows.X)
		if err != nil {
			return nil, nil, err
		}
		if cov != nil {
			cov.Scale(scale, cov)
		}
		var response mat.Dense
		if err := link.PredictTo(&response, nil, imagesLikelihood, mean, cov); err != nil || rows.Y == nil {
			return &response, nil, err
		}
		logp := make([]float64, count(rows.X))
		return &response, logp, link.LogPredictiveTo(logp, imagesLikelihood, rows.Y, mean, cov)
	}
}

// moments returns the mean, N×C, and the covariance, N·C×C, of f at the rows of x.
func (f *imagesFit) moments(ctx context.Context, post withMoments, x *mat.Dense) (mean, cov *mat.Dense, err error) {
	if post == nil {
		mean, err = f.net.Forward(ctx, x)
		return mean, nil, err
	}
	const tile = 500
	n, d := x.Dims()
	_, c := f.train.F.Dims()
	mean, cov = mat.NewDense(n, c, nil), mat.NewDense(n*c, c, nil)
	for lo := 0; lo < n; lo += tile {
		hi := min(lo+tile, n)
		b, err := f.jac.Linearize(ctx, x.Slice(lo, hi, 0, d).(*mat.Dense))
		if err == nil {
			err = post.PredictTo(ctx, mean.Slice(lo, hi, 0, c).(*mat.Dense), cov.Slice(lo*c, hi*c, 0, c).(*mat.Dense), b)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return mean, cov, nil
}

func (f *imagesFit) mapEstimate(ctx context.Context) error {
	return f.judge(ctx, "map", f.linked(predictive.MAP{}, nil, 1), nil)
}

// bnn draws parameters from the posterior and runs the network [glm 9].
func (f *imagesFit) bnn(ctx context.Context) error { return f.networks(ctx, "bnn", f.kfac) }

func (f *imagesFit) networks(ctx context.Context, method string, q Drawn) error {
	return f.judge(ctx, method, func(ctx context.Context, rows Rows) (*mat.Dense, []float64, error) {
		return DrawNetworks(ctx, f.net, q, imagesLikelihood, f.job.size.samples, uint64(f.job.seed), rows, func(int, int) {})
	}, nil)
}

// sampled is the GLM sampling predictive of a posterior [glm 13].
func (f *imagesFit) sampled(post withMoments) prediction {
	return f.linked(predictive.MonteCarlo{Samples: f.job.size.samples, Seed: uint64(f.job.seed)}, post, 1)
}

func (f *imagesFit) glm(ctx context.Context) error {
	return f.judge(ctx, "glm", f.sampled(f.kfac), nil)
}

func (f *imagesFit) diagonal(ctx context.Context) error {
	w, err := f.structure(ctx, weightspace.Diagonal, f.sites, nil)
	if err != nil {
		return err
	}
	return f.judge(ctx, "diag", f.sampled(w), nil)
}

// The search for the mode of the linearized model ends after so many Newton steps of so
// many products with its curvature, which is far nearer to it than the source went.
const (
	imagesNewton   = 3
	imagesProducts = 40
)

// refined is the posterior with Kronecker factors at the mode of the linearized model
// [glm 3.2], and ours is the same with its covariance scaled by the validation rows (E18).
// Leave-one-out takes an exact posterior: by Kronecker factors alone, some rows have
// leverages above one.
func (f *imagesFit) refined(ctx context.Context) error {
	// Passes through the network cost less than products with C gradients an example.
	products, err := f.net.Products(f.data.train.X)
	if err != nil {
		return err
	}
	found, err := mode.Find(ctx, f.train, gp.NewTargets(f.data.train.Y, imagesLikelihood), f.prior, f.theta,
		&mode.Options{Products: products, MaxIter: imagesNewton, MaxProducts: imagesProducts})
	if err != nil {
		return err
	}
	f.out.ModeGradient = result.Float(found.GradientNorm)
	post, err := f.structure(ctx, weightspace.KFAC, found.Sites, found.Theta)
	if err != nil {
		return err
	}
	if err := f.judge(ctx, "refined", f.sampled(post), nil); err != nil {
		return err
	}
	link := predictive.QMC{Tol: 1e-3, MaxPoints: 2048}
	c, err := f.calibrate(ctx, post, link)
	if err != nil {
		return err
	}
	f.warn(c.Warnings)
	f.out.Scale = result.Float(c.Scale)
	return f.judge(ctx, ours, f.linked(link, post, c.Scale), f.sampled(post))
}

// calibrate finds the scale of the covariance under which the validation rows are
// likeliest.
func (f *imagesFit) calibrate(ctx context.Context, post withMoments, link predictive.Link) (*score.Calibration, error) {
	rows := f.data.known.slice(0, f.job.size.valid)
	mean, cov, err := f.moments(ctx, post, rows.X)
	if err != nil {
		return nil, err
	}
	return score.Calibrate(ctx, imagesLikelihood, rows.Y, mean, cov, &score.CalibrateOptions{Link: link, KeepMean: true})
}
