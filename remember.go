package funcgp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize/network"
)

// remembered records where the model and the data of a saved posterior were, so that no option needs to name
// them again. Paths are absolute.
type remembered struct {
	Model  string      `json:"model"` // "" is the built-in network
	Layers []string    `json:"layers,omitempty"`
	Freeze []string    `json:"freeze,omitempty"`
	Learn  []string    `json:"learn,omitempty"`
	Tie    []string    `json:"tie,omitempty"`
	Output string      `json:"output,omitempty"` // a tensor; "" is the only output
	Bind   []string    `json:"bind,omitempty"`
	Column []string    `json:"input_columns,omitempty"`
	Weight []string    `json:"model_data,omitempty"` // files in which the model keeps its weights
	Data   string      `json:"data"`                 // a path, or the name of built-in data
	Target string      `json:"target,omitempty"`
	ID     string      `json:"id,omitempty"`
	Weigh  string      `json:"row_weights,omitempty"`
	Test   string      `json:"test_data,omitempty"`
	Valid  string      `json:"valid_data,omitempty"`
	Split  *int        `json:"split,omitempty"`
	Files  []fileCheck `json:"files"` // all files, the model's first
}

// insideData stands in place of a path in a file that holds its training rows itself.
const insideData = "rows"

// fileCheck is the SHA-256 of a file in hex, and its size.
type fileCheck struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes,omitempty"` // 0 where an older version wrote it
}

// A place says where the options and a file keep the same setting.
type place struct {
	flag         string
	keep, recall func()        // from the options to the file, and back
	was, given   func() string // of the file and of the options; "" where they say nothing
}

// text writes a value, or a list of values without its brackets.
func text(v any) string { return strings.Trim(fmt.Sprint(v), "[]") }

func placed[T any](flag string, file, given *T) place {
	return place{flag, func() { *file = *given }, func() { *given = *file }, func() string { return text(*file) }, func() string { return text(*given) }}
}

// placedMap returns the place of a setting that has a value for each of several names. A file lists the values
// as NAME=VALUE.
func placedMap(flag string, cut func(string) (string, string), file *[]string, given *map[string]string) place {
	list := func() (out []string) {
		for _, name := range slices.Sorted(maps.Keys(*given)) {
			out = append(out, name+"="+(*given)[name])
		}
		return out
	}
	return place{flag, func() { *file = list() }, func() {
		if *given = nil; *file != nil {
			*given = map[string]string{}
		}
		for _, text := range *file {
			name, value := cut(text)
			(*given)[name] = value
		}
	}, func() string { return text(slices.Sorted(slices.Values(*file))) }, func() string { return text(list()) }}
}

// cutFirst splits NAME=VALUE at the first equals sign.
func cutFirst(text string) (name, value string) {
	name, value, _ = strings.Cut(text, "=")
	return name, value
}

// ofModel lists the settings that, with another value, make another network of the same file.
var ofModel = []string{"output", "bind", "layers", "freeze", "learn", "tie"}

// places returns the places of the settings that are remembered unchanged.
func (r *remembered) places(f *asked) []place {
	return []place{placed("output", &r.Output, &f.Model.Output), placedMap("bind", network.CutBinding, &r.Bind, &f.Model.Bind), placed("layers", &r.Layers, &f.Model.Layers), placed("freeze", &r.Freeze, &f.Model.Freeze),
		placed("learn", &r.Learn, &f.Model.Learn), placed("tie", &r.Tie, &f.Model.Tie),
		placedMap("input-columns", cutFirst, &r.Column, &f.Model.InputColumns), placed("target", &r.Target, &f.Data.Target), placed("id", &r.ID, &f.Data.ID), placed("row-weights", &r.Weigh, &f.Data.RowWeights)}
}

// Remember says where the model and the data are.
func (p *problem) Remember(ctx context.Context) (*remembered, error) {
	f := &p.asked.Data
	r := &remembered{Split: f.Split}
	for _, s := range r.places(p.asked) {
		s.keep()
	}
	for _, path := range []struct {
		from string
		to   *string
	}{{p.Model.Path, &r.Model}, {f.source(), &r.Data}, {f.TestFile, &r.Test}, {f.ValidFile, &r.Valid}} {
		var err error
		if *path.to, err = absolute(path.from); err != nil {
			return nil, err
		}
	}
	model, data := p.Model.Files(), p.dataFiles
	if data == nil {
		data = p.Examples.Data.Files()
	}
	for i, path := range slices.Concat(model, data) {
		if i >= len(model) && p.Saved != nil && path == p.Saved.path {
			continue // the training rows are inside
		}
		full, err := absolute(path)
		if err != nil {
			return nil, err
		}
		check, known := p.asked.bySize[full]
		if !known {
			if check.SHA256, err = inputfile.Sum(ctx, full); err != nil {
				return nil, err
			}
			check.Path = full
			if info, err := os.Stat(full); err == nil {
				check.Bytes = info.Size()
			}
		}
		if check.SHA256 != "" {
			r.Files = append(r.Files, check)
		}
		if i > 0 && i < len(model) {
			r.Weight = append(r.Weight, full)
		}
	}
	if p.asked.gone {
		was := p.Saved.Header.Remembered
		for _, file := range was.Files {
			if file.Path != was.Model && !slices.Contains(was.Weight, file.Path) {
				r.Files = append(r.Files, file)
			}
		}
	}
	return r, nil
}

// absolute returns the absolute path of a file or directory, or the absolute paths of several. A name that is
// not a path stays unchanged.
func absolute(name string) (string, error) {
	if _, err := os.Stat(name); err == nil {
		return filepath.Abs(name)
	}
	if files := dataset.FilesOf(name); len(files) == 1 && files[0] == name {
		return name, nil
	}
	paths := strings.Split(name, ",")
	for i, path := range paths {
		var err error
		if paths[i], err = filepath.Abs(strings.TrimSpace(path)); err != nil {
			return "", err
		}
	}
	return strings.Join(paths, ","), nil
}

// recall sets the options of model and data that were not given. posterior is the file that remembers them. If
// a file has changed since, recall returns an error that says what to give. If the training inputs are in the
// posterior's file, the data may be gone. With bySize, the data that are read by range are compared by the
// sizes of their files alone, so that the computation of a part reads only its own rows; gpexplain merge
// compares the rest.
func (r *remembered) recall(ctx context.Context, posterior string, f *asked, inputs, bySize bool) error {
	if r == nil {
		return nil
	}
	bundled, another := f.network != nil, f.hasModel() // asked before the file fills it in
	if !another && r.Model != "" && !bundled {
		for _, path := range append([]string{r.Model}, r.Weight...) {
			if err := r.check(ctx, posterior, path, "{model}"); err != nil {
				return err
			}
		}
		f.Model.File = r.Model
	}
	for _, s := range r.places(f) { // other data have the same columns
		given, was := s.given(), s.was()
		if given == "" {
			s.recall()
		}
		if given == "" || given == was || was == "" && s.flag == "output" || !slices.Contains(ofModel, s.flag) || another {
			continue
		}
		flag := option.Named(s.flag)
		fitted := "with " + option.Set(s.flag, was)
		if was == "" {
			fitted = "without " + flag
		}
		return job.FullErrorf("%s: it was fitted %s, and %s makes another network; leave %s out, or fit again", posterior, fitted, option.Set(s.flag, given), flag)
	}
	if f.Data.Source != "" || r.Data == "" {
		return nil
	}
	if kind, _, _ := strings.Cut(r.Data, ":"); bundled && kind != "digits" || r.Data == insideData {
		f.gone, f.Data.Source = true, r.Data
		return nil
	}
	d := &f.Data
	d.Source = r.Data
	parts := f.Data.Split == nil && f.Data.TestFile == "" && f.Data.ValidFile == ""
	if parts {
		d.TestFile, d.ValidFile, d.Split = r.Test, r.Valid, r.Split
	}
	several := len(dataset.FilesOf(r.Data)) > 1
	for _, file := range r.Files {
		if file.Path == r.Model || slices.Contains(r.Weight, file.Path) || !parts && (file.Path == r.Test || file.Path == r.Valid) {
			continue
		}
		info, err := os.Stat(file.Path)
		if bySize && err == nil && info.Size() == file.Bytes && (several || info.Size() >= byRange) {
			if f.bySize == nil {
				f.bySize = map[string]fileCheck{}
			}
			f.bySize[file.Path] = file
			continue
		}
		err = r.check(ctx, posterior, file.Path, "{data}")
		if inputs && errors.Is(err, fs.ErrNotExist) {
			f.gone = true
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check compares a file with its checksum.
func (r *remembered) check(ctx context.Context, posterior, path string, flag option.Text) error {
	for _, file := range r.Files {
		if file.Path != path {
			continue
		}
		sum, err := inputfile.Sum(ctx, path)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return job.FullErrorf("%s: it was fitted with %s, which is not there (%w); give %s", posterior, path, fs.ErrNotExist, flag)
		case err != nil:
			return err
		case sum != file.SHA256:
			return job.FullErrorf("%s: %s has changed since it was fitted (SHA-256 %.12s…, was %.12s…); fit it again, or give %s with the file as it was", posterior, path, sum, file.SHA256, flag)
		}
	}
	return nil
}

// Record returns what identifies the source of an answer that is made now.
func (p *problem) Record(ctx context.Context, version string) (r result.Record, err error) {
	r = result.Record{Date: time.Now(), Version: version}
	if r.ModelSHA256, err = p.Model.Sum(ctx); err != nil {
		return r, err
	}
	for _, path := range p.Examples.Data.Files() {
		one := result.FileSum{Name: path}
		if one.SHA256, err = inputfile.Sum(ctx, path); err != nil {
			return r, err
		}
		if path != p.Examples.Data.Source {
			one.Name = filepath.Base(path)
		}
		r.DataSHA256 = append(r.DataSHA256, one)
	}
	if p.Saved != nil {
		r.PosteriorSHA256 = p.Saved.File.SHA256()
	}
	return r, nil
}

// Sum is the SHA-256 in hex of the model's file, followed by those in which it keeps its weights, or of what ONNX
// gives of one that has no file.
func (m *trainedModel) Sum(ctx context.Context) (string, error) {
	if m.Path != "" {
		return inputfile.Sum(ctx, m.Files()...)
	}
	file := builtin
	if m.Name != builtinName {
		var err error
		if file, err = m.ONNX(); err != nil {
			return "", err
		}
	}
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:]), nil
}
