// Package coder does what the command does with autoencoders: it trains them online,
// shows reconstructions with their uncertainty, and scores rows.
package coder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/glm/autoencoder"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/problem"
)

// Flags name the code of an autoencoder and its posterior.
type Flags struct {
	latent, decoder string
	posterior       string
	curvature       string
	tune            string
	samples         int
	given           func(flag string) bool
}

// posteriorSuffix ends the name of the file beside a model that holds its posterior.
const posteriorSuffix = ".posterior"

const defaultSamples = 100

// Add defines the flags. posterior tells whether --posterior and --samples are among
// them, for verbs that do not have their own.
func (f *Flags) Add(c *cobra.Command, posterior bool) {
	s := c.Flags()
	s.StringVar(&f.latent, "latent", "", "the code of an autoencoder is the result of this `NODE`, or tensor (default what the model records, else the narrowest)")
	s.StringVar(&f.decoder, "decoder", "", "the model is an encoder, and `FILE.onnx` its decoder")
	s.StringVar(&f.curvature, "curvature", "approximate", "`NAME` of how the GGN of an autoencoder without a saved posterior is carried back: approximate, exact or mixed")
	if posterior {
		s.StringVar(&f.posterior, "posterior", "", "take the posterior from `FILE` (default that beside the model, FILE.onnx"+posteriorSuffix+", else one is fitted)")
		s.IntVar(&f.samples, "samples", defaultSamples, "`S` networks drawn from the posterior")
		s.StringVar(&f.tune, "tune-prior", "", "choose the prior precision of a posterior that is fitted by `HOW`: evidence, the log evidence")
	}
}

// Check refuses flags that are wrong without opening a file.
func (f *Flags) Check(c *cobra.Command) error {
	f.given = c.Flags().Changed
	return flags.Check(c.Flags(), []flags.Rule{
		flags.AtLeast(1, "samples"),
		flags.Apart(": the code is what the encoder gives", "latent", "decoder"),
		flags.OneOf("curvature", autoencoder.CurvatureNames()...),
	})
}

// Asked tells whether a flag says that the model is an autoencoder.
func (f *Flags) Asked() bool { return f.latent != "" || f.decoder != "" }

// SetPosterior takes the values of a verb's own flags; 0 samples are the default.
func (f *Flags) SetPosterior(file string, samples int) {
	f.posterior, f.samples = file, cmp.Or(samples, defaultSamples)
}

// A session is an autoencoder with its posterior and data.
type session struct {
	*problem.Problem
	post    *autoencoder.Posterior
	made    string  // how the posterior was made
	typical float64 // mean of the negative log likelihood of training rows
	flags   *Flags
}

// open reads model, data and posterior, or fits the posterior to the training rows.
func open(ctx context.Context, c *console.Console, common *problem.Flags, f *Flags) (*session, error) {
	p, err := problem.OpenAutoencoder(ctx, c.Job, common, problem.AutoencoderSource{Decoder: f.decoder})
	if err != nil {
		return nil, err
	}
	code := f.latent
	if code == "" {
		code = p.Model.Code()
	}
	a, err := autoencoder.New(p.Model.Net, code)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; gpexplain reconstruct takes autoencoders", p.Model.Name, err)
	}
	s := &session{Problem: p, flags: f}
	if s.post, s.made, err = s.saved(c, a, common); err != nil {
		return nil, err
	}
	if s.post == nil {
		// Fit the posterior to the training rows.
		curvature, err := autoencoder.ParseCurvature(s.flags.curvature)
		if err != nil {
			return nil, err
		}
		rows := s.Examples.Train
		x, err := checked(ctx, a, s.Problem, rows)
		if err != nil {
			return nil, err
		}
		s.post, err = autoencoder.Fit(ctx, a, x, &autoencoder.FitOptions{Curvature: curvature, Prior: s.Task.Precision, Noise: s.Task.Noise, Progress: func(done, total int) { c.Show("curvature", done, total) }})
		c.Clear()
		s.made = fmt.Sprintf("fitted to %d training rows, %s diagonal of the GGN", rows.Len(), curvature)
		if err != nil {
			return nil, err
		}
		if f.tune != "" {
			if s.post, err = s.post.TunePrior(ctx); err != nil {
				return nil, err
			}
			s.made += fmt.Sprintf(", prior precision %.4g by its evidence", s.post.Prior())
		}
	}
	if common.Task.Prior.Precision != nil {
		s.post = s.post.WithPrior(*common.Task.Prior.Precision)
	}
	return s, c.EndPart(ctx, "posterior")
}

// saved returns the posterior of a file, nil where there is none.
func (s *session) saved(c *console.Console, a *autoencoder.Autoencoder, common *problem.Flags) (*autoencoder.Posterior, string, error) {
	path := s.flags.posterior
	if path == "" {
		if s.Model.Path == "" || s.flags.Asked() || s.flags.given("curvature") || s.flags.tune != "" {
			return nil, "", nil
		}
		path = s.Model.Path + posteriorSuffix
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, "", nil
		}
	}
	if common.Task.NoiseVariance != nil {
		return nil, "", fmt.Errorf("--noise-variance is for fitting a posterior, but %s holds one; leave it out, or give --curvature to fit one", path)
	}
	return autoencoder.Load(path, a)
}

// checked returns rows as inputs, all from 0 to 1.
func checked(ctx context.Context, a *autoencoder.Autoencoder, p *problem.Problem, rows *dataset.Rows) (*mat.Dense, error) {
	x, err := p.Examples.Inputs(ctx, rows, 0, rows.Len())
	if err != nil {
		return nil, err
	}
	if err := a.Check(x); err != nil {
		if e := (*autoencoder.RangeError)(nil); errors.As(err, &e) {
			return nil, fmt.Errorf("%s: %s row %d has %v in column %d, but an autoencoder takes numbers from 0 to 1; divide grey levels by 255, or scale the columns", rows.File, rows.Part, rows.Index[e.Row], e.Value, e.Column)
		}
		return nil, err
	}
	return x, nil
}

// mostTypical is the most training rows that the typicality is measured from.
const mostTypical = 1000

// measure finds the typical likelihood by some training rows.
func (s *session) measure(ctx context.Context, c *console.Console) error {
	rows := s.Examples.Train
	n := min(rows.Len(), mostTypical)
	x, err := s.Examples.Inputs(ctx, rows, 0, n)
	if err != nil {
		return err
	}
	d, err := s.post.Draw(ctx, x, s.draws(c, "typical rows", 0))
	if err != nil {
		return err
	}
	c.Clear()
	s.typical = d.Scores(s.post.Noise(), 0).Typical()
	return nil
}

// draws are the options of drawing networks.
func (s *session) draws(c *console.Console, stage string, keep int) *autoencoder.DrawOptions {
	return &autoencoder.DrawOptions{Samples: s.flags.samples, Keep: keep, Seed: s.Limits.Seed, Progress: func(done, total int) { c.Show(stage, done, total) }}
}
