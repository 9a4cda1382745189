package sparse

import (
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/memory"
)

// A Tile is the rows [First, End) of Sums, for sums that are too large to be handed on
// in one piece. Tiles of the same rows are added as Sums are, and JoinTiles makes Sums
// of tiles of all rows.
type Tile struct {
	spec       sumsSpec
	n          int // training examples
	first, end int
	gram       []float64 // upper triangle of Σ φΛφᵀ, row after row
	rhs        []float64 // entries of these rows, as in Sums
	square     []float64
	scalars    // in the tile of row 0; 0 in others
}

// Tiles cuts the sums into tiles of consecutive rows. A tile has at most that many numbers
// of the matrix, or a single row. The matrix of rank r has r·(r+1)/2 numbers; sums of rank 0
// are one tile without rows.
func (s *Sums) Tiles(most int) []*Tile {
	var list []*Tile
	for first := 0; first == 0 || first < s.spec.rank; {
		end := min(first+1, s.spec.rank)
		for end < s.spec.rank && triangle(s.spec.rank, first, end+1) <= int64(most) {
			end++
		}
		list = append(list, s.tile(first, end))
		if first = end; end == 0 {
			break
		}
	}
	return list
}

// triangle is the number of entries in rows [first, end) of the upper triangle of a matrix.
func triangle(rank, first, end int) int64 {
	upper := func(rows int) int64 { return memory.Mul(int64(rows), int64(rows)+1) / 2 }
	return upper(rank-first) - upper(rank-end)
}

func (s *Sums) tile(first, end int) *Tile {
	r := s.spec.rank
	t := &Tile{spec: s.spec, n: s.n, first: first, end: end, gram: make([]float64, 0, triangle(r, first, end)),
		rhs: slices.Clone(s.rhs[first:end]), square: slices.Clone(s.square[first:end])}
	for i := first; i < end; i++ {
		t.gram = append(t.gram, s.gram[i*r+i:(i+1)*r]...)
	}
	if first == 0 {
		t.scalars = s.scalars
	}
	return t
}

// First is the first row of the tile, which no other tile of the same sums has.
func (t *Tile) First() int { return t.first }

// Len returns the number of training examples in the sums.
func (t *Tile) Len() int { return t.n }

// Merge adds u, the same rows of the sums of other data, to t. It fails with a
// *MismatchError as Sums.Merge does, and where u has other rows.
func (t *Tile) Merge(u *Tile) error {
	what := t.spec.differs(u.spec)
	if what == "" && (t.first != u.first || t.end != u.end) {
		what = "their rows"
	}
	if what != "" {
		return &MismatchError{What: what}
	}
	t.n += u.n
	floats.Add(t.gram, u.gram)
	floats.Add(t.rhs, u.rhs)
	floats.Add(t.square, u.square)
	t.add(&u.scalars)
	return nil
}

// JoinTiles returns the sums of tiles of all their rows, in any order. Tiles that overlap
// or leave rows out, that are of other sums or of other numbers of examples, are an error.
func JoinTiles(tiles []*Tile) (*Sums, error) {
	if len(tiles) == 0 {
		return nil, errors.New("sparse: no tiles of sums to join")
	}
	s := newSums(tiles[0].spec)
	s.n = tiles[0].n
	r, next := s.spec.rank, 0
	for _, t := range slices.SortedFunc(slices.Values(tiles), func(a, b *Tile) int { return a.first - b.first }) {
		if what := s.spec.differs(t.spec); what != "" {
			return nil, &MismatchError{What: what}
		}
		if t.n != s.n {
			return nil, fmt.Errorf("sparse: the tiles are sums of %d and of %d examples", s.n, t.n)
		}
		if t.first != next {
			return nil, fmt.Errorf("sparse: the tiles do not join: row %d of %d is missing or there twice", min(next, t.first), r)
		}
		copy(s.rhs[t.first:], t.rhs)
		copy(s.square[t.first:], t.square)
		from := t.gram
		for i := t.first; i < t.end; i++ {
			copy(s.gram[i*r+i:(i+1)*r], from)
			from = from[r-i:]
		}
		if next = t.end; t.first == 0 {
			s.scalars = t.scalars
		}
	}
	if next != r {
		return nil, fmt.Errorf("sparse: the tiles do not join: row %d of %d is missing", next, r)
	}
	return s, nil
}

// The binary form of a tile is that of sums with another magic, with first and end after
// the fingerprint of the inputs, and with the tile's part of rhs, square and gram.
const (
	tileMagic   = "fgptile\x00"
	tileVersion = 2
	tileHeader  = len(tileMagic) + 4 + 7*8
)

var (
	_ encoding.BinaryMarshaler   = (*Tile)(nil)
	_ encoding.BinaryUnmarshaler = (*Tile)(nil)
)

// tileSize returns the length of the binary form.
func tileSize(rank, first, end int) int64 {
	rows := int64(end - first)
	return memory.Add(int64(tileHeader)+4, memory.Mul(8, memory.Add(int64(sumsScalars), memory.Add(2*rows, triangle(rank, first, end)))))
}

// MarshalBinary writes the tile with a version and a CRC-32C.
func (t *Tile) MarshalBinary() ([]byte, error) {
	size := tileSize(t.spec.rank, t.first, t.end)
	return encode(tileMagic, tileVersion, size, t.spec, t.n, []int{t.first, t.end}, &t.scalars, [][]float64{t.rhs, t.square, t.gram})
}

// UnmarshalBinary reads a tile that MarshalBinary wrote. Data that are cut short,
// damaged or of another version are an error, and t is then unchanged.
func (t *Tile) UnmarshalBinary(data []byte) error {
	body, err := checked(data, tileMagic, tileVersion, tileHeader)
	if err != nil {
		return err
	}
	o, n, err := readSpec(body[len(tileMagic)+4:])
	if err != nil {
		return err
	}
	first, end := binary.LittleEndian.Uint64(body[tileHeader-16:]), binary.LittleEndian.Uint64(body[tileHeader-8:])
	if first > end || end > uint64(o.rank) || int64(len(data)) != tileSize(o.rank, int(first), int(end)) {
		return errSumsSize
	}
	u := Tile{spec: o, n: n, first: int(first), end: int(end)}
	rows := u.end - u.first
	u.rhs, u.square, u.gram = make([]float64, rows), make([]float64, rows), make([]float64, triangle(o.rank, u.first, u.end))
	decode(body[tileHeader:], &u.spec.trace, &u.scalars, [][]float64{u.rhs, u.square, u.gram})
	*t = u
	return nil
}
