package sparse_test

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/sparse"
)

// tiledSums are sums of some and of the other training examples.
func tiledSums(t *testing.T) (some, others *sparse.Sums) {
	q := problems(t)[5]
	sums := func(rows []int) *sparse.Sums {
		b := q.builder(t, q.some(t), linear())
		x, s := q.rows(t, rows)
		require.NoError(t, b.Add(t.Context(), x, s))
		return b.Sums()
	}
	return sums(seq(0, 5)), sums(seq(5, q.N))
}

// Sums that are added tile by tile, through bytes, and joined in any order are those that
// are added whole, to the last bit. A tile is no larger than asked for where a row is not.
func TestTiles(t *testing.T) {
	some, others := tiledSums(t)
	want := some.Clone()
	require.NoError(t, want.Merge(others))
	whole := testref.Must(want.MarshalBinary())(t)
	counts := map[int]bool{}
	for _, most := range []int{0, 1, 7, 20, 1 << 40} {
		tiles := some.Tiles(most)
		counts[len(tiles)] = true
		var bytes int
		for i, u := range others.Tiles(most) {
			data := testref.Must(u.MarshalBinary())(t)
			bytes += len(data)
			v := new(sparse.Tile)
			require.NoError(t, v.UnmarshalBinary(data))
			require.Equal(t, u, v)
			require.NoError(t, tiles[i].Merge(v))
			require.Equal(t, want.Len(), tiles[i].Len())
		}
		const others = 8 + 4 + 5*8 + 6*8 + 4 // bytes that are not of rows
		require.Equal(t, len(whole)-others, bytes-len(tiles)*(others+2*8), "the tiles hold each number of the rows once")
		require.Zero(t, tiles[0].First())
		slices.Reverse(tiles)
		got := testref.Must(sparse.JoinTiles(tiles))(t)
		data := testref.Must(got.MarshalBinary())(t)
		require.Equal(t, whole, data)
	}
	require.Greater(t, len(counts), 2, "the sizes of tiles make no difference")
}

// Tiles of other sums or rows are not added, and tiles that are not all rows once are not
// joined.
func TestTilesThatDoNotJoin(t *testing.T) {
	some, others := tiledSums(t)
	q := problems(t)[5]
	builder := testref.Must(sparse.NewBuilder(t.Context(), scaledKernel{q.Kernel, 1.001}, q.some(t), linear()))(t)
	x, s := q.rows(t, seq(0, 5))
	require.NoError(t, builder.Add(t.Context(), x, s))
	prior := builder.Sums().Tiles(1)
	tiles := some.Tiles(1)
	require.ErrorContains(t, tiles[0].Merge(tiles[1]), "their rows")
	require.ErrorContains(t, tiles[0].Merge(prior[0]), "their prior")
	refused := func(problem string, tiles ...*sparse.Tile) {
		t.Helper()
		require.ErrorContains(t, testref.Err(sparse.JoinTiles(tiles)), problem)
	}
	n := len(tiles)
	refused("no tiles")
	refused("row 0", tiles[1:]...)
	refused("row 1", append(tiles[:1:1], tiles[2:]...)...)
	refused("is missing", tiles[:n-1]...)
	refused("there twice", append(tiles[:n:n], tiles[2])...)
	refused("examples", append(tiles[:n-1:n-1], others.Tiles(1)[n-1])...)
	refused("their prior", append(tiles[:n-1:n-1], prior[n-1])...)
}

// A byte changed, a byte less and impossible rows are errors.
func TestTileBinaryIsChecked(t *testing.T) {
	some, _ := tiledSums(t)
	data := testref.Must(some.Tiles(9)[1].MarshalBinary())(t)
	var v sparse.Tile
	for i := range data {
		bad := slices.Clone(data)
		bad[i] ^= 4
		require.Error(t, v.UnmarshalBinary(bad), "byte %d", i)
	}
	require.Error(t, v.UnmarshalBinary(data[:len(data)-1]))
	whole := testref.Must(some.MarshalBinary())(t)
	require.Error(t, v.UnmarshalBinary(whole))
	for _, at := range []int{28, 52, 60} { // the rank, first and end, with a right checksum
		bad := slices.Clone(data)
		binary.LittleEndian.PutUint32(bad[at:], 1<<20)
		require.ErrorContains(t, v.UnmarshalBinary(withChecksum(bad)), "impossible size", "at %d", at)
	}
}

func withChecksum(data []byte) []byte {
	end := len(data) - 4
	binary.LittleEndian.PutUint32(data[end:], crc32.Checksum(data[:end], crc32.MakeTable(crc32.Castagnoli)))
	return data
}

// Whatever the bytes are, they are a tile that is written as the same bytes or an error.
func FuzzTile(f *testing.F) {
	for _, rows := range []uint64{0, 1, 2} { // the first ones of sums of rank 2
		data := binary.LittleEndian.AppendUint32([]byte("fgptile\x00"), 2)
		for _, v := range []uint64{1, 2, 2, 3, 9, 0, rows} {
			data = binary.LittleEndian.AppendUint64(data, v)
		}
		f.Add(append(data, make([]byte, 8*(6+2*rows+rows*(5-rows)/2)+4)...))
	}
	f.Add([]byte("fgptile\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= 4 {
			data = withChecksum(slices.Clone(data))
		}
		var v sparse.Tile
		if v.UnmarshalBinary(data) == nil {
			again := testref.Must(v.MarshalBinary())(t)
			require.Equal(t, data, again)
		}
	})
}
