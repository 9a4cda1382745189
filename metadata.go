package funcgp

import (
	"bufio"
	"context"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// Keys of the metadata that train writes into a model.
const (
	keyLikelihood  = "funcgp.likelihood"
	keyPrecision   = "funcgp.prior_precision"
	keyNoise       = "funcgp.noise_variance"
	keyClasses     = "funcgp.classes"
	keyClassNames  = "funcgp.class_names"
	keyOthers      = "funcgp.other_classes"
	keyOthersNames = "class_names"
	keyTarget      = "funcgp.target_columns"
	keyID          = "funcgp.id_column"
	keyRowWeights  = "funcgp.row_weights"

	keyClassWeights = "funcgp.class_weights"
	keySmoothing    = "funcgp.label_smoothing"
	keyRows         = "funcgp.train_rows"
	keyData         = "funcgp.train_data"
	keyScaling      = "funcgp.scaling"
	keyTargets      = "funcgp.target_scaling"
	keyCommand      = "funcgp.command"
)

// stated is what a model says of its own training, or the file of a posterior of its fit. Zero values say nothing.
type stated struct {
	Likelihood   string        `json:"likelihood"`
	Classes      []int         `json:"classes"`
	ClassNames   []string      `json:"class_names,omitempty"` // in the order of the outputs
	Noise        float64       `json:"noise_variance"`
	Precision    float64       `json:"prior_precision"`
	ClassWeights *classWeights `json:"class_weights,omitempty"`   // of the loss, by class
	Smoothing    float64       `json:"label_smoothing,omitempty"` // ε of the loss
}

// metadata holds what a model records about its own training.
type metadata struct {
	stated
	others     []string         // labels whose rows were left out of the training; nil where not said
	target     []string         // target columns of a table
	id         string           // column of a table that names the rows
	rowWeights string           // column of a table with the weights of the rows
	Rows       string           // as formatRows writes
	Data       string           // fingerprint of the training part
	Scaling    *dataset.Scaling // of the inputs; nil where not said
	Targets    *dataset.Scaling // of the targets; nil where they are as they are in the data

	precisionFrom, noiseFrom decision     // of a saved posterior; nobody of the model itself
	saved                    *dataScaling // of a saved posterior; nil is the model itself
}

// An entry is one of the pairs that are stored with a model.
type entry struct {
	key   string
	read  func(m *metadata, text string) error // of a text that is there; any error is one of the key
	write func(p *problem) string              // "" where the problem says nothing
}

// entries are read in this order, so that an error always names the same one of several that are malformed.
var entries = []entry{
	{keyLikelihood, func(m *metadata, text string) error {
		if m.Likelihood = text; text != "" && !isLikelihood(text) {
			return strconv.ErrSyntax
		}
		return nil
	}, func(p *problem) string { return p.Task.Likelihood.Name() }},
	{keyPrecision, read(func(m *metadata) *float64 { return &m.Precision }, positive), func(p *problem) string { return shortest(p.Task.Precision) }},
	{keyNoise, read(func(m *metadata) *float64 { return &m.Noise }, positive), func(p *problem) string {
		if p.Task.Noise > 0 {
			return shortest(p.Task.Noise)
		}
		return ""
	}},
	{keyClasses, read(func(m *metadata) *[]int { return &m.Classes }, parseClasses), func(p *problem) string { return formatInts(p.Task.Classes) }},
	{keyClassNames, read(func(m *metadata) *[]string { return &m.ClassNames }, classNamesOf), func(p *problem) string { return job.JoinNames(slices.Concat(p.Task.Names, p.Task.LabelNames)) }},
	{keyOthers, func(m *metadata, text string) error {
		others, err := classNamesOf(text)
		m.others = append([]string{}, others...)
		return err
	}, func(p *problem) string {
		var others []string
		for _, k := range p.Examples.Data.Classes() {
			if !slices.Contains(p.Task.Classes, k) {
				others = append(others, p.Examples.Data.Train.ClassName(k))
			}
		}
		return job.JoinNames(others)
	}},
	{keyTarget, read(func(m *metadata) *[]string { return &m.target }, job.SplitNames), func(p *problem) string { return job.JoinNames(p.Examples.Data.TargetColumns) }},
	{keyID, read(func(m *metadata) *string { return &m.id }, asIs), func(p *problem) string { return p.Examples.Data.ID }},
	{keyRowWeights, read(func(m *metadata) *string { return &m.rowWeights }, asIs), func(p *problem) string { return p.Examples.Data.Weights }},
	{keyClassWeights, read(func(m *metadata) **classWeights { return &m.ClassWeights }, parseClassWeights), func(p *problem) string { return p.Task.ClassWeights().String() }},
	{keySmoothing, read(func(m *metadata) *float64 { return &m.Smoothing }, func(text string) (float64, error) {
		v, err := positive(text)
		if err == nil && v >= 1 {
			err = strconv.ErrRange
		}
		return v, err
	}), func(p *problem) string {
		if p.Task.Loss.Smoothing > 0 {
			return shortest(p.Task.Loss.Smoothing)
		}
		return ""
	}},
	{keyScaling, read(func(m *metadata) **dataset.Scaling { return &m.Scaling }, dataset.ParseScaling), func(p *problem) string {
		if p.Examples.Scaling.Inputs == nil && !p.Examples.Data.Images() {
			return (&dataset.Scaling{Mean: []float64{0}, Scale: []float64{1}}).String()
		}
		return p.Examples.Scaling.Inputs.String()
	}},
	{keyTargets, read(func(m *metadata) **dataset.Scaling { return &m.Targets }, dataset.ParseScaling), func(p *problem) string { return p.Examples.Scaling.Targets.String() }},
	{keyRows, read(func(m *metadata) *string { return &m.Rows }, asIs), func(p *problem) string { return job.FormatRows(p.Examples.Train.Index) }},
	{keyData, read(func(m *metadata) *string { return &m.Data }, asIs), func(p *problem) string { return fingerprint(p.Examples.Data.Train) }},
}

// read is the read of an entry with a place of its own.
func read[T any](to func(m *metadata) *T, parse func(text string) (T, error)) func(m *metadata, text string) error {
	return func(m *metadata, text string) (err error) {
		*to(m), err = parse(text)
		return err
	}
}

func asIs(text string) (string, error) { return text, nil }

// readMetadata parses the pairs stored with a model. A malformed pair is an error that names its key.
func readMetadata(kv map[string]string) (*metadata, error) {
	m := &metadata{}
	bad := func(key string) error {
		return fmt.Errorf("its metadata entry %s is %q, which cannot be used; give the flag, or train again", key, job.Cut(kv[key], 40))
	}
	for _, e := range entries {
		if text, said := kv[e.key]; said && e.read(m, text) != nil {
			return nil, bad(e.key)
		}
	}
	if m.ClassNames == nil {
		m.ClassNames, _ = classNamesOf(kv[keyOthersNames]) // of another program, which may mean something else
	}
	if m.Classes != nil && m.ClassNames != nil && len(m.Classes) != len(m.ClassNames) {
		return nil, bad(keyClassNames)
	}
	return m, nil
}

// positive reads a positive number; "" is 0.
func positive(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err == nil && !(v > 0 && v < 1e300) {
		err = strconv.ErrRange
	}
	return v, err
}

// fingerprint returns a checksum of the labels or targets of a data set, by which a model knows the data that it was
// trained on.
func fingerprint(s *dataset.Rows) string {
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	out := bufio.NewWriter(h) // whose writes never fail
	for _, v := range s.Labels {
		out.WriteString(s.ClassName(v)) // the numbers of words depend on other rows
		out.WriteByte('\n')
	}
	for _, v := range s.Targets {
		fmt.Fprintln(out, v)
	}
	out.Flush()
	return fmt.Sprintf("%d:%08x", s.Len(), h.Sum32())
}

// TrainMetadata says what a network was trained on, and by which command line, nil for none. code names the code of an
// autoencoder, whose outputs are for no classes; it is "" for other networks.
func (p *problem) TrainMetadata(args []string, code string) map[string]string {
	// Write a command line with the last elements of its paths alone, as a model is passed on to people whom the
	// folders of a machine do not concern.
	out := slices.Clone(args)
	for i, arg := range out {
		flag, value := "", arg
		if name, rest, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(name, "-") {
			flag, value = name+"=", rest
		}
		paths := strings.Split(value, ",")
		for k, path := range paths {
			if strings.ContainsRune(path, filepath.Separator) {
				paths[k] = filepath.Base(path)
			}
		}
		out[i] = flag + strings.Join(paths, ",")
	}
	kv := map[string]string{}
	if args != nil {
		kv[keyCommand] = job.CommandLine(out)
	}
	for _, e := range entries {
		text := e.write(p)
		if labels := e.key == keyOthers; labels && p.Task.Classes != nil || !labels && text != "" { // "" leaves out no label
			kv[e.key] = text
		}
	}
	if code != "" {
		kv[keyCode] = code
		delete(kv, keyClasses)
	}
	return kv
}

// columns sets the options for the target, the ID and the row weights of a table from the metadata, where no
// option is given and the table has those columns.
func (m *metadata) columns(ctx context.Context, path string, o *dataset.OpenOptions) error {
	if !dataset.IsCSV(dataset.FilesOf(path)[0]) || (m.target == nil || o.Target != "") && (m.id == "" || o.ID != "") && (m.rowWeights == "" || o.Weights != "") {
		return nil
	}
	header, err := dataset.Columns(ctx, path)
	if err != nil {
		return ctx.Err() // what is wrong with the file, opening it says
	}
	has := func(name string) bool { return slices.Contains(header, name) }
	if o.ID == "" && m.id != "" && has(m.id) {
		o.ID = m.id
	}
	if o.Weights == "" && m.rowWeights != "" && has(m.rowWeights) {
		o.Weights = m.rowWeights
	}
	if o.Target == "" && !slices.ContainsFunc(m.target, func(name string) bool { return !has(name) }) {
		o.Target = strings.Join(m.target, ",")
	}
	return nil
}

// metadataEntry names an entry of the model's metadata in messages.
func (m *trainedModel) metadataEntry(key string) option.Text {
	return option.Textf("%s: its metadata entry %s", m.Name, key)
}
