"""Its folder is on the path of imports because this file is here: the tests in the folders below share `worlds`."""
