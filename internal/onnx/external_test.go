package onnx

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// pair is one entry of external data.
func pair(key, value string) []byte {
	return bytesField(tensorExternal, msg(stringField(1, key), stringField(2, value)))
}

// elsewhere says that the elements are in another file.
var elsewhere = intField(tensorLocation, 1)

func TestExternal(t *testing.T) {
	got, err := decodeOne(tensorFile(dims(2, 1), typed(Float), stringField(tensorName, "w"), pair("location", "a/w.bin"), pair("checksum", "0f"), pair("offset", "12"), pair("length", "8"), elsewhere))
	require.NoError(t, err)
	want := &Tensor{Name: "w", Dims: []int64{2, 1}, Type: Float, External: &External{Location: "a/w.bin", Offset: 12, Length: 8, Other: []Entry{{"checksum", "0f"}}}}
	require.Equal(t, want, got)
	m := &Model{Graph: &Graph{Initializers: []*Tensor{want, {Dims: []int64{3}, Type: Int8, External: &External{Location: "w", Length: -1}}}}}
	b := testref.Must(m.Encode())(t)
	again := testref.Must(Decode(b))(t)
	require.Equal(t, m, again)

	file := append(make([]byte, 12), msg(le32(f32(1.5)), le32(f32(-2)))...)
	require.NoError(t, got.Load(t.Context(), bytes.NewReader(file)))
	require.Equal(t, &Tensor{Name: "w", Dims: []int64{2, 1}, Type: Float, Floats: []float64{1.5, -2}}, got)
	require.ErrorContains(t, again.Graph.Initializers[0].Load(t.Context(), bytes.NewReader(file[:19])), "EOF")
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, again.Graph.Initializers[0].Load(stopped, bytes.NewReader(file)), context.Canceled)

	// A file that says that the elements are in it is not searched for elsewhere.
	here, err := decodeOne(tensorFile(dims(1), typed(Float), pair("location", "/etc/passwd"), packedField(tensorFloats, le32(f32(3))), intField(tensorLocation, 0)))
	require.NoError(t, err)
	require.Nil(t, here.External)
	require.Equal(t, []float64{3}, here.Floats)
}

// TestExternalTypes checks that the same bytes in another file and in raw_data are the
// same elements, over more than one step of reading.
func TestExternalTypes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for d, info := range types {
		if d == String {
			continue
		}
		n := (1<<20)/info.size + 3
		raw := make([]byte, n*info.size)
		for i := range raw {
			raw[i] = byte(rng.Uint32() >> 3)
		}
		if d == Uint64 {
			for i := 7; i < len(raw); i += 8 {
				raw[i] = 0 // below 2^63
			}
		}
		want := testref.Must(decodeOne(tensorFile(dims(int64(n)), typed(d), bytesField(tensorRaw, raw))))(t)
		got := &Tensor{Dims: []int64{int64(n)}, Type: d, External: &External{Location: "w", Offset: 5, Length: -1}}
		require.NoError(t, got.Load(t.Context(), bytes.NewReader(append(make([]byte, 5), raw...))))
		same := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
		require.True(t, slices.EqualFunc(want.Floats, got.Floats, same), d)
		require.True(t, slices.Equal(want.Ints, got.Ints), d)
	}
}

func TestBadExternal(t *testing.T) {
	at := pair("location", "w.bin")
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"no entries", elsewhere, "its external data names no file"},
		{"no location", msg(elsewhere, pair("offset", "0")), "its external data names no file"},
		{"empty location", msg(elsewhere, pair("location", "")), "its external data names no file"},
		{"two locations", msg(elsewhere, at, at), `its external data has two entries "location"`},
		{"two offsets", msg(elsewhere, at, pair("offset", "0"), pair("offset", "4")), `two entries "offset"`},
		{"negative offset", msg(elsewhere, at, pair("offset", "-4")), `the offset of its external data is "-4", not a number of bytes`},
		{"negative length", msg(elsewhere, at, pair("length", "-8")), `the length of its external data is "-8", not a number of bytes`},
		{"no number", msg(elsewhere, at, pair("offset", "0x10\n")), `the offset of its external data is "0x10\n", not a number of bytes`},
		{"empty number", msg(elsewhere, at, pair("length", "")), `the length of its external data is "", not`},
		{"huge number", msg(elsewhere, at, pair("length", strings.Repeat("9", 500))), `not a number of bytes`},
		{"short", msg(elsewhere, at, pair("length", "4")), "shape [2] of float32 takes 8 bytes, but its external data has 4"},
		{"long", msg(elsewhere, at, pair("length", "9223372036854775807")), "takes 8 bytes, but its external data has 9223372036854775807"},
		{"past all", msg(elsewhere, at, pair("offset", "9223372036854775804")), "larger than a file can be"},
		{"here too", msg(elsewhere, at, bytesField(tensorRaw, make([]byte, 8))), "it has elements in the model and also external data"},
		{"here in a field", msg(elsewhere, at, packedField(tensorFloats, le32(1))), "it has elements in the model and also external data"},
		{"unknown place", msg(at, intField(tensorLocation, 2)), "its data location 2 is unknown"},
		{"strings", msg(elsewhere, at, typed(String)), "external data of string is not supported"},
		{"int4", msg(elsewhere, at, typed(22)), "external data of int4 is not supported"},
		{"many", msg(elsewhere, at, dims(1<<30, 1<<30)), "larger than a file can be"},
		{"negative dimension", msg(elsewhere, at, dims(-1)), "dimension 1 is -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := decodeOne(tensorFile(dims(2), typed(Float), c.b, stringField(tensorName, "fc.weight")))
			require.ErrorContains(t, err, c.want)
			require.True(t, strings.HasPrefix(err.Error(), `onnx: graph, initializer 0 "fc.weight": `), err.Error())
			require.NotContains(t, err.Error(), "\n")
			require.Less(t, len(err.Error()), 300)
		})
	}
}

func TestEachTensor(t *testing.T) {
	value := func(name string) []*Attribute {
		return []*Attribute{{Name: "value", Type: AttrTensor, T: &Tensor{Name: name}}}
	}
	inner := &Graph{Initializers: []*Tensor{{Name: "b"}}, Nodes: []*Node{{OpType: "Constant", Attributes: value("c")}}}
	m := &Model{
		Graph: &Graph{Initializers: []*Tensor{{Name: "a"}}, Nodes: []*Node{{OpType: "Neg"}, {Name: "if", OpType: "If", Attributes: []*Attribute{
			{Name: "then_branch", G: inner}, {Name: "others", Graphs: []*Graph{{Initializers: []*Tensor{{Name: "d"}}}}}}}}},
		Functions: []*Function{{Name: "F", Defaults: value("e"), Nodes: []*Node{{OpType: "Constant", Attributes: value("")}}}},
	}
	var places []string
	require.NoError(t, m.EachTensor(func(place string, _ *Tensor) error {
		places = append(places, place)
		return nil
	}))
	require.Equal(t, []string{
		`initializer 0 "a"`,
		`node 1 "if" (If), attribute "then_branch", initializer 0 "b"`,
		`node 1 "if" (If), attribute "then_branch", node 0 (Constant), attribute "value", tensor "c"`,
		`node 1 "if" (If), attribute "others", initializer 0 "d"`,
		`function 0 "F", attribute "value", tensor "e"`,
		`function 0 "F", node 0 (Constant), attribute "value", tensor`,
	}, places)
	for stop := range places {
		n := 0
		err := m.EachTensor(func(string, *Tensor) error {
			if n++; n > stop {
				return strconv.ErrRange
			}
			return nil
		})
		require.ErrorIs(t, err, strconv.ErrRange)
		require.Equal(t, stop+1, n)
	}
}
