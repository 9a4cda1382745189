package reproduce

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// damped compares the BNN predictive of the damped posterior, and that of a Gaussian process of some of the rows, over
// larger precisions than the study images has, on fewer rows.
var damped = &Study{Verb: "reproduce",
	Name:   "damped",
	Short:  "BNN predictives of digits with a damped posterior, and a Gaussian process of 3,200 rows",
	Source: "[glm] table 2, damped BNN and GP",
	Data:   imagesSources,
	Sets:   images.Sets,
	Plan: func(ctx context.Context, o *Options) (*Plan, error) {
		size := imagesFull
		size.train, size.valid, size.test, size.letters, size.turned, size.angles = 4000, 1000, 2000, 1000, 1, nil
		size.precisions, size.seeds = Logspace(0.5, 2.5, 3), 1
		return planImages(ctx, o, 1, size, dampedMethods, pageDamped)
	},
}

var dampedMethods = []imagesMethod{
	{"map", "MAP", (*imagesFit).mapEstimate},
	{"bnn", "BNN", (*imagesFit).bnn},
	{"damped", "BNN damped", (*imagesFit).damped},
	{"glm", "GLM", (*imagesFit).glm},
	{"subset", "GP of a subset", (*imagesFit).subset},
}

// damped adds √δ to both Kronecker factors of each layer, the mean of the inputs' and the sum of the outputs', as the
// source does.
func (f *imagesFit) damped(ctx context.Context) error {
	q, err := f.structure(ctx, weightspace.KFACDampedMean, f.sites, nil)
	if err != nil {
		return err
	}
	return f.networks(ctx, "damped", q.(Drawn))
}

// subsetRows are the rows of the Gaussian process, and subsetScales what δ·N/M is multiplied by; validation rows choose.
// It is made at the precision at which the network alone has its best NLL.
const subsetRows = 3200

var subsetScales = []float64{1, 10, 100}

func nearBestMAP(precision float64) bool { return precision > 2 && precision < 5 }

// subset is the Gaussian process of random training rows [glm 3.4], of each output by itself: its covariance
// between outputs is left out, and Λ is diagonal. Its mean is the network.
func (f *imagesFit) subset(ctx context.Context) error {
	if !nearBestMAP(f.job.precision) {
		return nil
	}
	n := f.train.Len()
	rows := rand.New(rand.NewPCG(uint64(f.job.seed), 0x5b5e7)).Perm(n)[:min(subsetRows, n)]
	slices.Sort(rows)
	var best *perOutput
	lowest := math.Inf(1)
	for _, scale := range subsetScales {
		post, err := f.perOutput(ctx, rows, f.job.precision*float64(n)/float64(len(rows))*scale)
		if err != nil {
			return err
		}
		valid := f.data.known.slice(0, f.job.size.valid)
		_, logp, err := f.sampled(post)(ctx, valid)
		if err != nil {
			return err
		}
		nll := 0.0
		for _, v := range logp {
			nll -= v
		}
		if nll < lowest {
			lowest, best, f.out.Scale = nll, post, result.Float(scale)
		}
	}
	return f.judge(ctx, "subset", f.sampled(best), nil)
}

// A perOutput has a posterior of its own for each output.
type perOutput []*gp.Exact

func (f *imagesFit) perOutput(ctx context.Context, rows []int, precision float64) (*perOutput, error) {
	prior, err := ntk.NewIsotropic(precision, nil)
	if err != nil {
		return nil, err
	}
	var post perOutput
	for c := range f.train.Outputs() {
		x, err := oneOutput(ctx, f.train, rows, c)
		if err != nil {
			return nil, err
		}
		s := &gp.Sites{F: x.F, Residual: mat.NewDense(len(rows), 1, nil), Lambda: mat.NewDense(len(rows), 1, nil), Root: mat.NewDense(len(rows), 1, nil)}
		for i, r := range rows {
			s.Residual.Set(i, 0, f.sites.Residual.At(r, c))
			v := f.sites.Lambda.At(r*f.train.Outputs()+c, c)
			s.Lambda.Set(i, 0, v)
			s.Root.Set(i, 0, math.Sqrt(v))
		}
		e, err := gp.Fit(ctx, ntk.New(prior, f.theta), x, s, &gp.Options{Limits: linearize.Limits{Memory: f.job.o.MaxMemory}})
		if err != nil {
			return nil, err
		}
		post = append(post, e)
	}
	return &post, nil
}

// oneOutput are these examples of x with output c alone.
func oneOutput(ctx context.Context, x *linearize.Batch, rows []int, c int) (*linearize.Batch, error) {
	w := mat.NewDense(len(rows), x.Outputs(), nil)
	for i := range rows {
		w.Set(i, c, 1)
	}
	return linearize.GatherCombined(ctx, x, rows, w)
}

// PredictTo writes the moments of f, T×C and T·C×C, which are sized. Outputs do not covary.
func (p *perOutput) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	n, all := x.Len(), make([]int, x.Len())
	for i := range all {
		all[i] = i
	}
	c := len(*p)
	cov.Zero()
	for j, e := range *p {
		one, err := oneOutput(ctx, x, all, j)
		if err != nil {
			return err
		}
		var m, v mat.Dense
		if err := e.PredictTo(ctx, &m, &v, one); err != nil {
			return err
		}
		for i := range n {
			mean.Set(i, j, m.At(i, 0))
			cov.Set(i*c+j, j, v.At(i, 0))
		}
	}
	return nil
}

// pageDamped makes the page of the study damped.
func pageDamped(tables []*imagesTable, size *imagesSize) (*Page, error) {
	page := &Page{Title: "Damped posteriors and a Gaussian process of some digits", Lead: []string{
		"The networks and scores are those of the study images, on fewer digits and over larger prior precisions δ. BNN damped draws parameters from the posterior whose Kronecker factors each have √δ added, BNN from that with δ added to their product; GLM draws from the latter of the linearized model. Each method chooses its δ by its own negative log likelihood of validation rows.",
		fmt.Sprintf("GP of a subset has %d random training rows, a precision of δ·N/M times one of %v that validation rows choose, which is the column scale, and the network as its mean. Outputs do not covary in it, and Λ is diagonal. It is made at the precision that is best for the network alone on the first 10,000 digits.", subsetRows, subsetScales),
	}}
	var rows []imagesRow
	for _, m := range dampedMethods {
		rows = append(rows, imagesRow{m.key, m.title})
	}
	for _, t := range tables {
		page.Sections = append(page.Sections, Section{Title: imagesTitles[t.kind], Tables: []*Table{t.scored(rows)}})
	}
	settingsImages(page, tables, size)
	return page, nil
}
