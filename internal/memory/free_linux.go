package memory

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
)

// freeMemory returns the number of bytes that can be taken without swapping.
func freeMemory() int64 {
	free := int64(assumedFree)
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		if kib, ok := field(data, "MemAvailable:"); ok {
			free = Mul(kib, 1024)
		}
	}
	if room, ok := controlGroupRoom("/sys/fs/cgroup"); ok {
		free = min(free, room)
	}
	return free
}

// controlGroupRoom returns how many more bytes the control group (version 2) of a container allows: memory.max less
// the memory in use that cannot be dropped.
func controlGroupRoom(dir string) (int64, bool) {
	limit, ok := readNumber(dir + "/memory.max") // the word "max" means no limit
	if !ok {
		return 0, false
	}
	used, ok := readNumber(dir + "/memory.current")
	if !ok {
		return 0, false
	}
	if stat, err := os.ReadFile(dir + "/memory.stat"); err == nil {
		cache, _ := field(stat, "inactive_file")
		used -= cache
	}
	return max(0, limit-used), true
}

func readNumber(path string) (int64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	v, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return v, err == nil && v >= 0
}

// field returns the number that follows name on its line.
func field(data []byte, name string) (int64, bool) {
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		if w := strings.Fields(s.Text()); len(w) >= 2 && w[0] == name {
			v, err := strconv.ParseInt(w[1], 10, 64)
			return v, err == nil && v >= 0
		}
	}
	return 0, false
}
