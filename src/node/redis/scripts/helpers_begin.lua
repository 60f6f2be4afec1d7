-- What acquire.lua needs in its less common ways: the files from here to helpers_end.lua are one
-- function, so that its parts are made only when it is called.
local function helpers()
