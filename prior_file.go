package funcgp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// priorSchema names the layout of a prior's file.
const priorSchema = "funcgp/prior/1"

// Kinds of a prior.
const (
	priorIsotropic = "isotropic" // one variance for all parameters
	priorGroups    = "groups"    // one variance for each group
	priorG         = "g"         // the variance of a group times a scale of each parameter
)

// A priorOfFile is a prior as gpexplain evidence --optimize writes it, in JSON.
type priorOfFile struct {
	Schema     string        `json:"schema"`
	Kind       string        `json:"kind"`
	Likelihood string        `json:"likelihood"`
	Noise      *float64      `json:"noise_variance,omitempty"` // of the gaussian likelihood alone
	Theta      linearize.Sum `json:"theta"`                    // checksum of the trained parameters
	Parameters int           `json:"parameters"`
	Groups     []priorGroup  `json:"groups"` // partition the parameter tensors
	// Scale has one number for each parameter, in the order of θ. Only priors of the kind g have it. A
	// parameter of scale 0 is held at its trained value.
	Scale []float64  `json:"scale,omitempty"`
	Found *priorFind `json:"found,omitempty"` // how it was found

	path string
}

// A priorFind says how a prior was found.
type priorFind struct {
	Form     string  `json:"form"` // the evidence that it maximizes
	Evidence float64 `json:"log_evidence"`
	Examples int     `json:"examples"`
}

// readPrior reads a file; "" is nil.
func readPrior(ctx context.Context, path string, memory int64) (*priorOfFile, error) {
	if path == "" {
		return nil, nil
	}
	in, err := inputfile.Open(ctx, path)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, job.FullErrorf("{prior=%s}: it cannot be opened: %w; name a file that {evidence optimize} -o wrote", path, job.CauseOf(err))
	}
	defer in.Close()
	most := gp.MemoryBudget(memory) / 4
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, job.FullErrorf("{prior=%s}: it cannot be read: %w", path, job.CauseOf(err))
	case int64(len(text)) > most:
		return nil, job.FullErrorf("{prior=%s}: it has more than %s, a quarter of the memory that may be used; raise {max-memory}", path, job.SizeText(most))
	}
	f, err := parsePrior(text)
	if err != nil {
		return nil, job.FullErrorf("{prior=%s}: %w; find it again with {evidence optimize} -o", path, err)
	}
	f.path = path
	return f, nil
}

// parsePrior reads the JSON of a prior, and returns an error for values that no prior of any model has.
func parsePrior(text []byte) (*priorOfFile, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	f := &priorOfFile{}
	if err := d.Decode(f); err != nil {
		return nil, fmt.Errorf("it is no prior in JSON: %s", job.Cut(job.OneLine(err.Error()), 120))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the prior")
	}
	return f, f.check()
}

// check returns an error for values that no prior has.
func (f *priorOfFile) check() error {
	usable := func(v float64) bool { return v >= 1e-300 && v <= 1e300 }
	switch {
	case f.Schema != priorSchema:
		return fmt.Errorf("its schema is %q, not %q", job.Cut(f.Schema, 40), priorSchema)
	case !slices.Contains([]string{priorIsotropic, priorGroups, priorG}, f.Kind):
		return fmt.Errorf("its kind is %q, not isotropic, groups or g", job.Cut(f.Kind, 40))
	case !isLikelihood(f.Likelihood):
		return fmt.Errorf("its likelihood is %q, which is none", job.Cut(f.Likelihood, 40))
	case hasNoise(likelihoodNamed(f.Likelihood)) != (f.Noise != nil):
		return fmt.Errorf("its noise_variance must be there for the gaussian likelihood, and for no other")
	case f.Noise != nil && !usable(*f.Noise):
		return fmt.Errorf("its noise_variance is %v, which is no variance", *f.Noise)
	case f.Kind == priorIsotropic && len(f.Groups) != 1:
		return fmt.Errorf("it has %d groups, but an isotropic prior has one", len(f.Groups))
	case f.Kind == priorG && len(f.Scale) != f.Parameters:
		return fmt.Errorf("its scale has %d numbers for %d parameters", len(f.Scale), f.Parameters)
	case f.Kind != priorG && f.Scale != nil:
		return fmt.Errorf("its scale is for the kind g alone")
	}
	for i, v := range f.Scale {
		if v != 0 && !usable(v) {
			return fmt.Errorf("the scale of parameter %d is %v, which is none", i, v)
		}
	}
	tensors, parameters := map[string]bool{}, 0
	for _, g := range f.Groups {
		if !usable(g.Variance) && (g.Variance != 0 || f.Kind == priorIsotropic) {
			return fmt.Errorf("the variance of group %q is %v, which is none", job.Cut(g.Name, 40), g.Variance)
		}
		for _, t := range g.Tensors {
			if tensors[t.Name] {
				return fmt.Errorf("its tensor %q is there twice", job.Cut(t.Name, 40))
			}
			tensors[t.Name] = true
			size := 1
			for _, d := range t.Shape {
				if d < 1 || size > math.MaxInt32/d {
					return fmt.Errorf("the shape of its tensor %q is %v, which is none", job.Cut(t.Name, 40), t.Shape)
				}
				size *= d
			}
			parameters += size
		}
	}
	if parameters != f.Parameters {
		return fmt.Errorf("its tensors have %d parameters, not the %d that it says", parameters, f.Parameters)
	}
	return nil
}

// Write writes the file, completely or not at all.
func (f *priorOfFile) Write(path string) error {
	if err := f.check(); err != nil {
		panic("funcgp: a prior that cannot be read: " + err.Error())
	}
	return atomicfile.Write(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		if f.Scale == nil {
			e.SetIndent("", " ")
		}
		return e.Encode(f)
	})
}

// origin says where a prior came from.
func (f *priorOfFile) origin() decision {
	// Files that people pass on keep it.
	return decision{byOption, "from " + option.Set("prior", filepath.Base(f.path))}
}

// misfit returns the reason why the prior belongs to another network, or "" if it belongs to this one.
func (f *priorOfFile) misfit(net *network.Network) string {
	have := map[string][]int{}
	for _, g := range f.Groups {
		for _, t := range g.Tensors {
			have[t.Name] = t.Shape
		}
	}
	for _, x := range net.Params() {
		shape, ok := have[x.Name]
		switch {
		case !ok:
			return fmt.Sprintf("it says nothing of the tensor %s", x.Name)
		case !slices.Equal(shape, x.Shape):
			return fmt.Sprintf("its tensor %s has the shape %v, not %v", x.Name, shape, x.Shape)
		}
		delete(have, x.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		return fmt.Sprintf("there is no tensor %s", job.Cut(job.OneLine(name), 40))
	}
	if f.Kind == priorG && f.Theta != linearize.SumOf(net.Theta()) {
		return "it was found for other values of the parameters"
	}
	return ""
}

// noise gives the task the file's noise variance, in the units of the data.
func (f *priorOfFile) noise(t *problemTask, m *trainedModel) error {
	if f == nil {
		return nil
	}
	if f.Likelihood != t.Likelihood.Name() {
		return job.FullErrorf("{prior=%s}: it was found for the %s likelihood, but %s has %s; find one with {evidence optimize} -o", f.path, f.Likelihood, m.Name, t.Likelihood.Name())
	}
	if f.Noise == nil {
		return nil
	}
	var err error
	t.Noise, t.NoiseFrom = *f.Noise, f.origin()
	t.Likelihood, err = glm.NewGaussian(t.Noise)
	return err
}

// set gives the task the file's prior; a nil file leaves it as it is.
func (f *priorOfFile) set(t *problemTask, m *trainedModel) {
	if f == nil {
		return
	}
	t.PrecisionFrom, t.FoundPrior = f.origin(), true
	if f.Kind == priorIsotropic {
		t.Precision = 1 / f.Groups[0].Variance
		return
	}
	t.Prior = newPrior(f.Kind, f.Groups, f.Scale, m.Net, f.origin().Text)
	t.Precision = t.Prior.Precision
}

// newPriorFile returns the prior file of these groups for a model and a task.
func newPriorFile(kind string, groups []priorGroup, scale []float64, net *network.Network, t *problemTask, noise float64, found *priorFind) *priorOfFile {
	f := &priorOfFile{Schema: priorSchema, Kind: kind, Likelihood: t.Likelihood.Name(), Theta: linearize.SumOf(net.Theta()), Groups: groups, Scale: scale, Found: found}
	_, _, f.Parameters = net.Dims()
	if hasNoise(t.Likelihood) {
		f.Noise = &noise
	}
	return f
}
