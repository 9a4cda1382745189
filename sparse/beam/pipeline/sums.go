package pipeline

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/sparse/shard"
)

func init() {
	register.DoFn3x1[context.Context, shard.Part, func(int, *sparse.Tile), error](&sumsFn{})
	register.Emitter2[int, *sparse.Tile]()
	register.Combiner1[*sparse.Tile](&addTiles{})
	register.DoFn3x1[context.Context, int, *sparse.Tile, error](&writeTileFn{})
	beam.RegisterCoder(reflect.TypeFor[shard.Part](), encodePart, decodePart)
	beam.RegisterCoder(reflect.TypeFor[*sparse.Tile](), encodeTile, decodeTile)
}

func encodePart(p shard.Part) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(p.Number)), uint64(p.Of))
}

func decodePart(data []byte) (shard.Part, error) {
	if len(data) != 16 {
		return shard.Part{}, fmt.Errorf("pipeline: a part of %d bytes, not 16", len(data))
	}
	return shard.Part{Number: int(binary.LittleEndian.Uint64(data)), Of: int(binary.LittleEndian.Uint64(data[8:]))}, nil
}

func encodeTile(t *sparse.Tile) ([]byte, error) { return t.MarshalBinary() }

func decodeTile(data []byte) (*sparse.Tile, error) {
	t := new(sparse.Tile)
	return t, t.UnmarshalBinary(data)
}

// A Pass is what workers need to know of a pass over the training rows.
type Pass struct {
	FitOptions // with absolute paths
	// Dir is where the files of the parts and of the tiles go.
	Dir string
	// Identity has the fingerprints of the pass. A worker that finds another model, other data or
	// other inducing examples fails.
	Identity shard.Identity
	// Most is the number of matrix entries of a tile; 0 means 50,005,000, those of M·C = 10,000.
	Most int
}

// mostEntries is the number of entries of Σ φΛφᵀ of rank 10,000, 400 MB.
const mostEntries = 10_000 * 10_001 / 2

// Sums returns the sums of all parts, a PCollection<KV<int, *sparse.Tile>> with one tile for
// each key, which is its first row. in is a PCollection<shard.Part>. It writes the file of
// each part, and fails for a part without training rows.
func Sums(s beam.Scope, in beam.PCollection, p Pass) beam.PCollection {
	s = s.Scope("sums")
	if p.Most == 0 {
		p.Most = mostEntries
	}
	return beam.CombinePerKey(s, &addTiles{}, beam.ParDo(s, &sumsFn{Options: text(&p.FitOptions), Dir: p.Dir, Identity: p.Identity, Most: p.Most}, in))
}

// partFile returns the path of the file of a part in a directory.
func partFile(dir string, p shard.Part) string {
	return filepath.Join(dir, fmt.Sprintf("part-%d-of-%d.rows", p.Number, p.Of))
}

// A sumsFn computes parts, and adds the sums of the parts of a bundle.
type sumsFn struct {
	Options  string // options in the form of the function text
	Dir      string
	Identity shard.Identity
	Most     int

	sums *sparse.Sums // sums of the bundle so far; nil for none
}

// StartBundle begins with no sums.
func (f *sumsFn) StartBundle(context.Context, func(int, *sparse.Tile)) error {
	f.sums = nil
	return nil
}

// ProcessElement computes a part.
func (f *sumsFn) ProcessElement(ctx context.Context, p shard.Part, _ func(int, *sparse.Tile)) error {
	return workerError(fits.with(ctx, f.Options, func(fit *funcgp.Pass) error {
		if err := f.check(ctx, fit, p); err != nil {
			return err
		}
		sums, err := fit.WriteApart(ctx, p, partFile(f.Dir, p))
		switch {
		case err != nil:
			return err
		case f.sums == nil:
			f.sums = sums
			return nil
		}
		return f.sums.Merge(sums)
	}))
}

// check returns an error for a part without rows, and for a fit that is not of this pass.
func (f *sumsFn) check(ctx context.Context, fit *funcgp.Pass, p shard.Part) error {
	if err := checkPart(p, fit.Len()); err != nil {
		return err
	}
	now, err := fit.Identity(ctx)
	if err != nil {
		return err
	}
	if d := now.Difference(f.Identity); d != "" {
		return fmt.Errorf("a worker finds another pass than where the pipeline was started: they differ in %s; all machines need the same files at the same paths, which are those of %s", d, f.Options)
	}
	return nil
}

// FinishBundle emits the sums of the bundle as tiles.
func (f *sumsFn) FinishBundle(_ context.Context, emit func(int, *sparse.Tile)) error {
	if f.sums == nil {
		return nil
	}
	for _, t := range f.sums.Tiles(f.Most) {
		emit(t.First(), t)
	}
	f.sums = nil
	return nil
}

// addTiles adds the tiles of one key.
type addTiles struct{}

// MergeAccumulators adds b to a.
func (*addTiles) MergeAccumulators(a, b *sparse.Tile) (*sparse.Tile, error) {
	return a, workerError(a.Merge(b))
}

// WriteTiles writes each tile of Sums to a file of a directory, which ReadTiles joins.
func WriteTiles(s beam.Scope, tiles beam.PCollection, dir string) {
	beam.ParDo0(s.Scope("write"), &writeTileFn{Dir: dir}, tiles)
}

const tileFiles = "sums-*.tile"

// A writeTileFn writes tiles to files, which appear when they are complete.
type writeTileFn struct{ Dir string }

// ProcessElement writes one tile.
func (f *writeTileFn) ProcessElement(_ context.Context, first int, t *sparse.Tile) error {
	data, err := t.MarshalBinary()
	if err == nil {
		err = atomicfile.Write(filepath.Join(f.Dir, fmt.Sprintf("sums-%d.tile", first)), func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
	}
	return workerError(err)
}

// ReadTiles joins the tiles in the files of a directory.
func ReadTiles(dir string) (*sparse.Sums, error) {
	paths, err := filepath.Glob(filepath.Join(dir, tileFiles))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: no worker has written sums there; name with --dir a directory that all machines share", dir)
	}
	var tiles []*sparse.Tile
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		t, err := decodeTile(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		tiles = append(tiles, t)
	}
	sums, err := sparse.JoinTiles(tiles)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return sums, nil
}
