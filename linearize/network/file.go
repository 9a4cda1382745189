package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/option"
)

// ReadONNXFile reads the network in a file, as ReadONNX does, and the weights that the
// model keeps in other files (external data). The files must be regular files in the model's folder
// or below it: a path that leads elsewhere, a symbolic link and a device are errors. Weights past
// the end of their file and weights that overlap are errors too. If the context ends, waiting for
// data of a pipe and reading of large files end.
func ReadONNXFile(ctx context.Context, name string, o *ReadOptions) (*Network, error) {
	file, err := inputfile.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if file.Size() > MaxModelBytes {
		return nil, fmt.Errorf("network: it has %d bytes, but a model has at most %d; save its weights in files beside it (external data)", file.Size(), MaxModelBytes)
	}
	m, err := onnx.Read(file)
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	files, err := loadExternal(ctx, m, filepath.Dir(name), o)
	if err != nil {
		return nil, err
	}
	n, err := newNetwork(m, o)
	if err != nil {
		return nil, err
	}
	n.files = files
	return n, nil
}

// ExternalFiles returns the paths of the files beside the model from which ReadONNXFile
// read weights, in the order in which the model names them.
func (n *Network) ExternalFiles() []string { return slices.Clone(n.files) }

// An external is a tensor whose elements are in another file.
type external struct {
	place  string
	tensor *onnx.Tensor
	file   string // path relative to the folder
	bytes  int64
}

// errorf returns an error that names the tensor and its file.
func (x *external) errorf(format string, args ...any) error {
	return option.Errorf("network: %s: its values are in %s (external data), %w", x.place, quote(x.tensor.External.Location), option.Errorf(format, args...))
}

// externals lists the tensors of m whose elements are in other files.
func externals(m *onnx.Model) (list []external, err error) {
	err = m.EachTensor(func(place string, t *onnx.Tensor) error {
		if t.External == nil {
			return nil
		}
		bytes, err := t.ExternalBytes()
		list = append(list, external{place, t, path.Clean(t.External.Location), bytes})
		return err
	})
	return list, err
}

// loadExternal reads the tensors of m that are in other files of a folder, and returns the paths of
// these files. It checks all places and the memory before it reads anything.
func loadExternal(ctx context.Context, m *onnx.Model, dir string, o *ReadOptions) ([]string, error) {
	list, err := externals(m)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	folder, err := inputfile.OpenFolder(dir)
	if err != nil {
		return nil, list[0].errorf("whose folder %s cannot be opened: %w; give a model file with its weights beside it", quote(dir), err)
	}
	defer folder.Close()
	files, err := checkExternal(ctx, folder, list)
	if err != nil {
		return nil, err
	}
	// There must be memory for the elements and for θ.
	need, limit := int64(0), int64(0)
	if o != nil {
		limit = o.MaxMemory
	}
	for i := range list {
		need = memory.Add(need, memory.Mul(2*8, list[i].bytes/int64(list[i].tensor.Type.Size())))
	}
	if budget := memory.Budget(limit); need > budget {
		return nil, list[0].errorf("and with the others takes %d bytes of memory, of which %d may be used; "+
			"raise {ReadOptions.MaxMemory max-memory}", need, budget)
	}
	var paths []string
	for _, name := range files {
		if err := loadFile(ctx, folder, name, list); err != nil {
			return nil, err
		}
		paths = append(paths, filepath.Join(dir, filepath.FromSlash(name)))
	}
	return paths, nil
}

// checkExternal checks that the files exist, that each tensor lies within its file, and that no two
// tensors share bytes. It returns the files in the order of the tensors.
func checkExternal(ctx context.Context, folder *inputfile.Folder, list []external) (files []string, err error) {
	sizes, parts := map[string]int64{}, map[string][]*external{}
	for i := range list {
		x := &list[i]
		size, known := sizes[x.file]
		if !known {
			f, err := folder.Open(ctx, x.tensor.External.Location)
			if err != nil {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				if p := (*fs.PathError)(nil); errors.As(err, &p) {
					err = p.Err
				}
				remedy := "put the file itself beside the model"
				switch {
				case errors.Is(err, inputfile.ErrOutside):
					remedy = "move the file beside the model and save the model with that name"
				case errors.Is(err, fs.ErrNotExist):
					remedy = "copy the file that was saved with the model beside it"
				}
				return nil, x.errorf("which cannot be read from the model's folder: %w; %s", err, remedy)
			}
			size = f.Size()
			f.Close()
			sizes[x.file] = size
			files = append(files, x.file)
		}
		at := x.tensor.External.Offset
		if at > size || x.bytes > size-at {
			return nil, x.errorf("bytes %d to %d, but the file has %d: it is cut short or of another model; copy the whole file beside the model", at, at+x.bytes, size)
		}
		if x.bytes > 0 {
			parts[x.file] = append(parts[x.file], x)
		}
	}
	for _, name := range files {
		part := parts[name]
		slices.SortStableFunc(part, func(a, b *external) int {
			return cmp.Compare(a.tensor.External.Offset, b.tensor.External.Offset)
		})
		for i := 1; i < len(part); i++ {
			a, b := part[i-1], part[i]
			if a.tensor.External.Offset+a.bytes > b.tensor.External.Offset {
				return nil, b.errorf("from byte %d, where those of %s are too; save the model again", b.tensor.External.Offset, a.place)
			}
		}
	}
	return files, nil
}

// loadFile reads the tensors that are in one file.
func loadFile(ctx context.Context, folder *inputfile.Folder, name string, list []external) error {
	var file *inputfile.File
	for i := range list {
		x := &list[i]
		if x.file != name {
			continue
		}
		if file == nil {
			var err error
			if file, err = folder.Open(ctx, name); err != nil {
				return x.errorf("which cannot be read: %w; read the model again", err)
			}
			defer file.Close()
		}
		if err := x.tensor.Load(ctx, file); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return x.errorf("which cannot be read: %w; read the model again", err)
		}
	}
	return nil
}

// quote quotes a name from the file, and cuts it if its quoted form is long; a byte may take four
// characters.
func quote(name string) string {
	const most = 200
	if len(strconv.Quote(name)) <= most {
		return strconv.Quote(name)
	}
	cut := name[:min(len(name), most)]
	for len(strconv.Quote(cut)) > most {
		cut = cut[:len(cut)*3/4]
	}
	return strconv.Quote(cut + "…")
}
