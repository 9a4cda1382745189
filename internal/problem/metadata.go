package problem

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
)

// Keys of the metadata that train writes into a model.
const (
	KeyLikelihood  = "funcgp.likelihood"
	KeyPrecision   = "funcgp.prior_precision"
	KeyNoise       = "funcgp.noise_variance"
	KeyClasses     = "funcgp.classes"
	KeyClassNames  = "funcgp.class_names"
	keyOthers      = "funcgp.other_classes"
	keyOthersNames = "class_names"
	keyTarget      = "funcgp.target_columns"
	keyID          = "funcgp.id_column"
	KeyRows        = "funcgp.train_rows"
	keyData        = "funcgp.train_data"
	KeyScaling     = "funcgp.scaling"
	keyTargets     = "funcgp.target_scaling"
	KeyCommand     = "funcgp.command"
)

// Metadata is what a model says about its own training.
type Metadata struct {
	Likelihood       string
	Precision, Noise float64 // 0 where not said
	Classes          []int
	ClassNames       []string         // in the order of the outputs
	others           []string         // labels whose rows were left out of the training; nil where not said
	target           []string         // target columns of a table
	id               string           // column of a table that names the rows
	Rows             string           // as formatRows writes
	Data             string           // fingerprint of the training part
	Scaling          *dataset.Scaling // of the inputs; nil where not said
	Targets          *dataset.Scaling // of the targets; nil where they are as they are in the data

	precisionFrom, noiseFrom Origin   // of a saved posterior; "" is the model itself
	saved                    *Scaling // of a saved posterior; nil is the model itself
}

// readMetadata parses the pairs stored with a model. A malformed pair is an error
// that names its key. Of several malformed pairs it always names the same.
func readMetadata(kv map[string]string) (*Metadata, error) {
	m := &Metadata{Likelihood: kv[KeyLikelihood], Rows: kv[KeyRows], Data: kv[keyData]}
	bad := func(key string) error {
		return fmt.Errorf("its metadata entry %s is %q, which cannot be used; give the flag, or train again", key, job.Cut(kv[key], 40))
	}
	if m.Likelihood != "" && !isLikelihood(m.Likelihood) {
		return nil, bad(KeyLikelihood)
	}
	var err error
	if m.Precision, err = positive(kv[KeyPrecision]); err != nil {
		return nil, bad(KeyPrecision)
	}
	if m.Noise, err = positive(kv[KeyNoise]); err != nil {
		return nil, bad(KeyNoise)
	}
	if m.Classes, err = parseClasses(kv[KeyClasses]); err != nil {
		return nil, bad(KeyClasses)
	}
	if m.ClassNames, err = classNamesOf(kv[KeyClassNames]); err != nil {
		return nil, bad(KeyClassNames)
	}
	if m.ClassNames == nil {
		m.ClassNames, _ = classNamesOf(kv[keyOthersNames]) // of another program, which may mean something else
	}
	if text, said := kv[keyOthers]; said {
		if m.others, err = classNamesOf(text); err != nil {
			return nil, bad(keyOthers)
		}
		m.others = append([]string{}, m.others...)
	}
	m.id = kv[keyID]
	if m.target, err = splitNames(kv[keyTarget]); err != nil {
		return nil, bad(keyTarget)
	}
	if m.Classes != nil && m.ClassNames != nil && len(m.Classes) != len(m.ClassNames) {
		return nil, bad(KeyClassNames)
	}
	if m.Scaling, err = dataset.ParseScaling(kv[KeyScaling]); err != nil {
		return nil, bad(KeyScaling)
	}
	if m.Targets, err = dataset.ParseScaling(kv[keyTargets]); err != nil {
		return nil, bad(keyTargets)
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

// Fingerprint returns a checksum of the labels or targets of a data set, by which
// a model knows the data that it was trained on.
func Fingerprint(s *dataset.Set) string {
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

// TrainMetadata says what a network was trained on, and by which command line.
func (p *Problem) TrainMetadata(args []string) map[string]string {
	t, e := p.Task, p.Examples
	// Write a command line with the last elements of its paths alone, as a model is passed on to people
	// whom the folders of a machine do not concern.
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
	kv := map[string]string{
		KeyLikelihood: t.Likelihood.Name(),
		KeyPrecision:  strconv.FormatFloat(t.Precision, 'g', -1, 64),
		KeyRows:       FormatRows(e.Train.Rows),
		keyData:       Fingerprint(e.Data.Train),
		KeyCommand:    job.CommandLine(out),
	}
	if t.Noise > 0 {
		kv[KeyNoise] = strconv.FormatFloat(t.Noise, 'g', -1, 64)
	}
	if t.Classes != nil {
		kv[KeyClasses] = FormatInts(t.Classes)
		var others []string
		for _, k := range e.Data.Classes() {
			if !slices.Contains(t.Classes, k) {
				others = append(others, e.Data.Train.ClassName(k))
			}
		}
		kv[keyOthers] = JoinNames(others)
	}
	if t.Names != nil {
		kv[KeyClassNames] = JoinNames(t.Names)
	}
	if e.Data.TargetColumns != nil {
		kv[keyTarget] = JoinNames(e.Data.TargetColumns)
	}
	if e.Data.ID != "" {
		kv[keyID] = e.Data.ID
	}
	if s := e.Scaling.Inputs; s != nil {
		kv[KeyScaling] = s.String()
	} else if !e.Data.Images() {
		kv[KeyScaling] = (&dataset.Scaling{Mean: []float64{0}, Scale: []float64{1}}).String()
	}
	if s := e.Scaling.Targets; s != nil {
		kv[keyTargets] = s.String()
	}
	return kv
}

// columns takes the target and the ID of a table from the metadata where the flags
// do not say them and the table has them.
func (m *Metadata) columns(ctx context.Context, path string, o *dataset.OpenOptions) error {
	if !dataset.IsCSV(dataset.FilesOf(path)[0]) || (m.target == nil || o.Target != "") && (m.id == "" || o.ID != "") {
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
	if o.Target == "" && !slices.ContainsFunc(m.target, func(name string) bool { return !has(name) }) {
		o.Target = strings.Join(m.target, ",")
	}
	return nil
}
