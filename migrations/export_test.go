package migrations

// TableNames returns the names of the tables that this build's migrations leave.
func TableNames() ([]string, error) {
	files, err := Set{Files: embedded}.load()
	return tablesOf(files), err
}
