package trained

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// TrainIndex reads the rows that a network of the reference was trained on: a row on each line, or of a safetensors
// file the tensor train_index.
func TrainIndex(path string) ([]int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []int
	if !strings.HasSuffix(path, ".safetensors") {
		for word := range strings.FieldsSeq(string(b)) {
			row, err := strconv.Atoi(word)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
		return rows, nil
	}
	if len(b) < 8 || binary.LittleEndian.Uint64(b) > uint64(len(b)-8) {
		return nil, fmt.Errorf("%s is no safetensors file", path)
	}
	n := binary.LittleEndian.Uint64(b)
	var header struct {
		Rows struct {
			Offsets [2]int `json:"data_offsets"`
		} `json:"train_index"`
	}
	if err := json.Unmarshal(b[8:8+n], &header); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	raw := b[8+n:][header.Rows.Offsets[0]:header.Rows.Offsets[1]]
	for i := range len(raw) / 8 {
		rows = append(rows, int(binary.LittleEndian.Uint64(raw[8*i:])))
	}
	return rows, nil
}
