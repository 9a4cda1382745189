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

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/glm/autoencoder"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/linearize/network"
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
	set     *funcgp.TrainingSet
	seed    uint64
	post    *autoencoder.Posterior
	made    string  // how the posterior was made
	typical float64 // mean of the negative log likelihood of training rows
	flags   *Flags
}

// open reads model, data and posterior, or fits the posterior to the training rows.
func open(ctx context.Context, c *console.Console, m funcgp.Model, d funcgp.Data, o *funcgp.FitOptions, f *Flags) (*session, error) {
	set, err := funcgp.OpenAutoencoder(ctx, m, d, o, f.decoder)
	if err != nil {
		return nil, err
	}
	net, code := set.Network()
	a, err := autoencoder.New(net, cmp.Or(f.latent, code))
	if err != nil {
		name, _ := set.Names()
		return nil, fmt.Errorf("%s: %w; gpexplain reconstruct takes autoencoders", name, err)
	}
	s := &session{set: set, seed: o.Seed, flags: f}
	if s.post, s.made, err = s.saved(a, m.File, o); err != nil {
		return nil, err
	}
	if s.post == nil {
		// Fit the posterior to the training rows.
		curvature, err := autoencoder.ParseCurvature(s.flags.curvature)
		if err != nil {
			return nil, err
		}
		x, _, err := checked(ctx, a, set, set.TrainingRows())
		if err != nil {
			return nil, err
		}
		info := set.Info()
		s.post, err = autoencoder.Fit(ctx, a, x, curvature, float64(info.PriorPrecision), float64(info.NoiseVariance), func(done, total int) { c.Show("curvature", done, total) })
		c.Clear()
		s.made = fmt.Sprintf("fitted to %d training rows, %s diagonal of the GGN", info.Examples, curvature)
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
	if o.Prior.Precision != nil {
		s.post = s.post.WithPrior(*o.Prior.Precision)
	}
	return s, c.EndPart(ctx, "posterior")
}

// saved returns the posterior of a file, by default of that beside the model, nil where there is none.
func (s *session) saved(a *autoencoder.Autoencoder, model string, o *funcgp.FitOptions) (*autoencoder.Posterior, string, error) {
	path := s.flags.posterior
	if path == "" {
		if model == "" || s.flags.Asked() || s.flags.given("curvature") || s.flags.tune != "" {
			return nil, "", nil
		}
		path = model + posteriorSuffix
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, "", nil
		}
	}
	if o.NoiseVariance != nil {
		return nil, "", fmt.Errorf("--noise-variance is for fitting a posterior, but %s holds one; leave it out, or give --curvature to fit one", path)
	}
	return autoencoder.Load(path, a)
}

// checked returns rows as inputs, all from 0 to 1, and the loss of a training to reconstruct them.
func checked(ctx context.Context, a *autoencoder.Autoencoder, set *funcgp.TrainingSet, rows *funcgp.Rows) (*mat.Dense, network.Loss, error) {
	x, _, loss, err := set.Examples(ctx, rows)
	if err == nil {
		err = a.Check(x)
	}
	if e := (*autoencoder.RangeError)(nil); errors.As(err, &e) {
		err = fmt.Errorf("%s has %v in column %d, but an autoencoder takes numbers from 0 to 1; divide grey levels by 255, or scale the columns", rows.Name(e.Row), e.Value, e.Column)
	}
	return x, loss, err
}

// mostTypical is the most training rows that the typicality is measured from.
const mostTypical = 1000

// measure finds the typical likelihood by some training rows.
func (s *session) measure(ctx context.Context, c *console.Console) error {
	rows := s.set.TrainingRows()
	x, _, _, err := s.set.Examples(ctx, rows.Slice(0, min(rows.Len(), mostTypical)))
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
	return &autoencoder.DrawOptions{Samples: s.flags.samples, Keep: keep, Seed: s.seed, Progress: func(done, total int) { c.Show(stage, done, total) }}
}
